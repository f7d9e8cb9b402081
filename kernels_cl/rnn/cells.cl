// Pointwise part of LSTM and GRU cells: gates (both matrix products done) to hidden state, and back.
// Tensors are contiguous: gates [rows, G, hidden] with G = 4 (LSTM: i, f, g, o) or 3 (GRU: r, z, n), states [rows,
// hidden], biases
// [G, hidden] (both or none). Dimension 0 of the launch walks over `hidden`, dimension 1 over the rows.
//   LSTM: c' = sigmoid(f) c + sigmoid(i) tanh(g),  h' = sigmoid(o) tanh(c');  workspace [rows, 4, hidden]: the
//   activated gates
//   GRU:  n = tanh(in + r (hn)),  h' = n + z (h - n);  workspace [rows, 5, hidden]: r, z, n, h, hn (with its bias)
#include "common/style_lanes.clh"

#ifndef X_DTYPE
#define X_DTYPE float32
#endif
#ifndef C_DTYPE
#define C_DTYPE float32
#endif
#define COMPUTE C_DTYPE
#define W LANES
#define S VALUE(C_DTYPE)
#define T LANES_OF(C_DTYPE)
#include "common/vector_math.clh"

#define D STORAGE(X_DTYPE)
#define READ(p, i) GET_LANES(X_DTYPE, C_DTYPE, p, i)
#define WRITE(p, i, end, v) PUT_LANES(X_DTYPE, C_DTYPE, p, i, end, v)

#if CPU_STYLE
#define COLUMNS 256
#define FOR_HIDDEN(j)                                                     \
  const long row = get_group_id(1);                                       \
  const int last_ = MIN_OF(hidden, (int)(get_group_id(0) + 1) * COLUMNS); \
  for (int j = get_group_id(0) * COLUMNS; j < last_; j += 16)
#else
#define FOR_HIDDEN(j)                \
  const long row = get_global_id(1); \
  for (int j = get_global_id(0); j < hidden; j += get_global_size(0))
#endif

inline T sigmoid(T x) { return (T)1 / ((T)1 + exp_fast(-x)); }

// Sum of both products and both biases for gate k of count gates.
#define GATE(count, k)                                                                                     \
  (READ(input, (row * (count) + (k)) * hidden + j) + READ(recurrent, (row * (count) + (k)) * hidden + j) + \
   (biased ? READ(input_bias, (k) * hidden + j) + READ(recurrent_bias, (k) * hidden + j) : (T)0))
#define PART(count, k) ((row * (count) + (k)) * (long)hidden)

TASK_KERNEL void lstm_forward(global const D* input, global const D* recurrent, global const D* input_bias,
                              global const D* recurrent_bias, global const D* cx, global D* hy, global D* cy,
                              global D* workspace, int hidden, int biased) {
  FOR_HIDDEN(j) {
    const T i = sigmoid(GATE(4, 0)), f = sigmoid(GATE(4, 1)), g = tanh_fast(GATE(4, 2)), o = sigmoid(GATE(4, 3));
    const T c = f * READ(cx, row * hidden + j) + i * g, h = o * tanh_fast(c);
    WRITE(hy + row * hidden, j, hidden, h);
    WRITE(cy + row * hidden, j, hidden, c);
    WRITE(workspace + PART(4, 0), j, hidden, i);
    WRITE(workspace + PART(4, 1), j, hidden, f);
    WRITE(workspace + PART(4, 2), j, hidden, g);
    WRITE(workspace + PART(4, 3), j, hidden, o);
  }
}

// Either gradient may be absent (flag 0).
TASK_KERNEL void lstm_backward(global const D* grad_hy, global const D* grad_cy, global const D* cx, global const D* cy,
                               global const D* workspace, global D* grad_gates, global D* grad_cx, int hidden,
                               int has_hy, int has_cy) {
  FOR_HIDDEN(j) {
    const T i = READ(workspace, PART(4, 0) + j), f = READ(workspace, PART(4, 1) + j);
    const T g = READ(workspace, PART(4, 2) + j), o = READ(workspace, PART(4, 3) + j);
    const T dh = has_hy ? READ(grad_hy, row * hidden + j) : (T)0;
    const T t = tanh_fast(READ(cy, row * hidden + j));
    T dc = dh * o * ((T)1 - t * t);
    if (has_cy) dc += READ(grad_cy, row * hidden + j);
    const T di = dc * g * ((T)1 - i) * i, df = dc * READ(cx, row * hidden + j) * ((T)1 - f) * f;
    const T dg = dc * i * ((T)1 - g * g), d_out = dh * t * ((T)1 - o) * o, dcx = dc * f;
    WRITE(grad_cx + row * hidden, j, hidden, dcx);
    WRITE(grad_gates + PART(4, 0), j, hidden, di);
    WRITE(grad_gates + PART(4, 1), j, hidden, df);
    WRITE(grad_gates + PART(4, 2), j, hidden, dg);
    WRITE(grad_gates + PART(4, 3), j, hidden, d_out);
  }
}

TASK_KERNEL void gru_forward(global const D* input, global const D* recurrent, global const D* input_bias,
                             global const D* recurrent_bias, global const D* hx, global D* hy, global D* workspace,
                             int hidden, int biased) {
  FOR_HIDDEN(j) {
    const T r = sigmoid(GATE(3, 0)), z = sigmoid(GATE(3, 1)), h = READ(hx, row * hidden + j);
    T hn = READ(recurrent, PART(3, 2) + j), in = READ(input, PART(3, 2) + j);
    if (biased) {
      hn += READ(recurrent_bias, 2 * hidden + j);
      in += READ(input_bias, 2 * hidden + j);
    }
    const T n = tanh_fast(in + r * hn), out = n + z * (h - n);
    WRITE(hy + row * hidden, j, hidden, out);
    WRITE(workspace + PART(5, 0), j, hidden, r);
    WRITE(workspace + PART(5, 1), j, hidden, z);
    WRITE(workspace + PART(5, 2), j, hidden, n);
    WRITE(workspace + PART(5, 3), j, hidden, h);
    WRITE(workspace + PART(5, 4), j, hidden, hn);
  }
}

TASK_KERNEL void gru_backward(global const D* grad_hy, global const D* workspace, global D* grad_input,
                              global D* grad_recurrent, global D* grad_hx, int hidden) {
  FOR_HIDDEN(j) {
    const T r = READ(workspace, PART(5, 0) + j), z = READ(workspace, PART(5, 1) + j),
            n = READ(workspace, PART(5, 2) + j);
    const T h = READ(workspace, PART(5, 3) + j), hn = READ(workspace, PART(5, 4) + j);
    const T dh = READ(grad_hy, row * hidden + j);
    const T dz = dh * (h - n) * ((T)1 - z) * z, dhx = dh * z;
    const T dn = dh * ((T)1 - z) * ((T)1 - n * n), dhn = dn * r, dr = dn * hn * ((T)1 - r) * r;
    WRITE(grad_hx + row * hidden, j, hidden, dhx);
    WRITE(grad_input + PART(3, 0), j, hidden, dr);
    WRITE(grad_input + PART(3, 1), j, hidden, dz);
    WRITE(grad_input + PART(3, 2), j, hidden, dn);
    WRITE(grad_recurrent + PART(3, 0), j, hidden, dr);
    WRITE(grad_recurrent + PART(3, 1), j, hidden, dz);
    WRITE(grad_recurrent + PART(3, 2), j, hidden, dhn);
  }
}

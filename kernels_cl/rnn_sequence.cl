// One LSTM layer in one direction over a whole sequence in one launch; fat style. float32.
// A task walks through time with ROWS sequences of the batch: nothing but its own rows is needed from step to step, so no task waits for another.
// Time-major, contiguous: gates [steps, rows, 4, hidden] (i, f, g, o), output and cells [steps, rows, hidden], states [rows, hidden].
// Weights come in panels of 64 columns, [panel][k][64], filled up with zeros (lstm_pack):
//   forward   panel p: columns gate * 16 + l for unit 16 p + l;      k: unit of the previous state
//   backward  panel p: columns l for unit 64 p + l;                  k: row of the weight, 4 * hidden of them
#define LANES 16
#define COMPUTE float32
#define W 16
#define S float
#define T float16
#include "common/types.clh"
#include "common/vector_math.clh"

#define ROWS 4
#define EACH_ROW _Pragma("unroll") for (int r = 0; r < ROWS; r++)
#define EACH_PART _Pragma("unroll") for (int g = 0; g < 4; g++)

// Units j ... j + 15 of a row; those from `hidden` on are 0.
inline float16 load_units(__global const float* row, int j, int hidden) {
  if (j + 16 <= hidden) return vload16(0, row + j);
  float part[16] = {0};
  for (int l = 0; l < hidden - j; l++) part[l] = row[j + l];
  return vload16(0, part);
}

inline void store_units(__global float* row, int j, int hidden, float16 v) {
  if (j + 16 <= hidden) {
    vstore16(v, 0, row + j);
    return;
  }
  float part[16];
  vstore16(v, 0, part);
  for (int l = 0; l < hidden - j; l++) row[j + l] = part[l];
}

// weight [4, hidden, hidden]. Grid: panels.
FAT_KERNEL void lstm_pack(TENSOR(const float, weight), TENSOR(float, packed), int hidden, int backward) {
  OPEN(const float, weight); OPEN(float, packed);
  const int p = get_group_id(0), depth = backward ? 4 * hidden : hidden;
  for (int k = 0; k < depth; k++)
    for (int l = 0; l < 64; l++) {
      const int unit = backward ? p * 64 + l : p * 16 + l % 16;
      const long at = backward ? (long)k * hidden + unit : ((long)(l / 16) * hidden + unit) * hidden + k;
      packed[((long)p * depth + k) * 64 + l] = unit < hidden ? weight[at] : 0.0f;
    }
}

// gates holds the products with the input, biases included, and receives the activated gates. Grid: ceil(rows / ROWS).
FAT_KERNEL void lstm_sequence(TENSOR(const float, packed), TENSOR(const float, h0), TENSOR(const float, c0), TENSOR(float, gates), TENSOR(float, output),
                              TENSOR(float, cells), int steps, int rows, int hidden, int reverse) {
  OPEN(const float, packed); OPEN(const float, h0); OPEN(const float, c0); OPEN(float, gates); OPEN(float, output); OPEN(float, cells);
  const int row0 = get_group_id(0) * ROWS, count = MIN_OF(ROWS, rows - row0);
  const long state = (long)rows * hidden;
  long row[ROWS];
  EACH_ROW row[r] = row0 + MIN_OF(r, count - 1);
  __global const float* h = h0;
  __global const float* c = c0;
  for (int s = 0; s < steps; s++) {
    const long t = reverse ? steps - 1 - s : s;
    __global float* gate = gates + t * 4 * state;
    for (int j = 0; j < hidden; j += 16) {
      float16 sum[ROWS][4];
      EACH_ROW EACH_PART sum[r][g] = load_units(gate + (row[r] * 4 + g) * hidden, j, hidden);
      __global const float* w = packed + (long)j * hidden * 4;
      for (int k = 0; k < hidden; k++, w += 64) {
        float16 part[4];
        EACH_PART part[g] = vload16(g, w);
        EACH_ROW {
          const float16 x = (float16)h[row[r] * hidden + k];
          EACH_PART sum[r][g] = fma(part[g], x, sum[r][g]);
        }
      }
      for (int r = 0; r < count; r++) {
        const float16 in = sigmoid_of(sum[r][0]), forget = sigmoid_of(sum[r][1]), next = tanh_fast(sum[r][2]), out = sigmoid_of(sum[r][3]);
        const float16 cell = fma(forget, load_units(c + row[r] * hidden, j, hidden), in * next);
        __global float* to = gate + row[r] * 4 * hidden;
        store_units(to, j, hidden, in);
        store_units(to + hidden, j, hidden, forget);
        store_units(to + 2 * hidden, j, hidden, next);
        store_units(to + 3 * hidden, j, hidden, out);
        store_units(cells + t * state + row[r] * hidden, j, hidden, cell);
        store_units(output + t * state + row[r] * hidden, j, hidden, out * tanh_fast(cell));
      }
    }
    h = output + t * state;
    c = cells + t * state;
  }
}

// Gradients of the output and of the last states (absent: flag 0) to those of the gates before activation and of the first states.
// memory: 2 ROWS rows of round_up(hidden, 64) floats.
FAT_KERNEL void lstm_sequence_backward(TENSOR(const float, packed), TENSOR(const float, gates), TENSOR(const float, cells), TENSOR(const float, c0),
                                       TENSOR(const float, grad_output), TENSOR(const float, grad_hn), TENSOR(const float, grad_cn), TENSOR(float, grad_gates),
                                       TENSOR(float, grad_h0), TENSOR(float, grad_c0), int steps, int rows, int hidden, int reverse, int has_output,
                                       int has_hn, int has_cn, __local float* memory) {
  OPEN(const float, packed); OPEN(const float, gates); OPEN(const float, cells); OPEN(const float, c0); OPEN(const float, grad_output);
  OPEN(const float, grad_hn); OPEN(const float, grad_cn); OPEN(float, grad_gates); OPEN(float, grad_h0); OPEN(float, grad_c0);
  const int row0 = get_group_id(0) * ROWS, count = MIN_OF(ROWS, rows - row0), width = (hidden + 63) / 64 * 64;
  const long state = (long)rows * hidden;
  long row[ROWS];
  EACH_ROW row[r] = row0 + MIN_OF(r, count - 1);
  __local float* dh = memory;
  __local float* dc = memory + ROWS * width;
  for (int r = 0; r < count; r++)
    for (int j = 0; j < hidden; j += 16) {
      vstore16(has_hn ? load_units(grad_hn + row[r] * hidden, j, hidden) : (float16)0, 0, dh + r * width + j);
      vstore16(has_cn ? load_units(grad_cn + row[r] * hidden, j, hidden) : (float16)0, 0, dc + r * width + j);
    }
  for (int s = steps - 1; s >= 0; s--) {
    const long t = reverse ? steps - 1 - s : s;
    __global const float* before = s == 0 ? c0 : cells + (reverse ? t + 1 : t - 1) * state;
    __global float* d = grad_gates + t * 4 * state;
    for (int r = 0; r < count; r++) {
      __global const float* gate = gates + t * 4 * state + row[r] * 4 * hidden;
      __global float* to = d + row[r] * 4 * hidden;
      for (int j = 0; j < hidden; j += 16) {
        const float16 in = load_units(gate, j, hidden), forget = load_units(gate + hidden, j, hidden);
        const float16 next = load_units(gate + 2 * hidden, j, hidden), out = load_units(gate + 3 * hidden, j, hidden);
        const float16 cell = tanh_fast(load_units(cells + t * state + row[r] * hidden, j, hidden));
        float16 g = vload16(0, dh + r * width + j);
        if (has_output) g += load_units(grad_output + t * state + row[r] * hidden, j, hidden);
        const float16 gc = vload16(0, dc + r * width + j) + g * out * (1.0f - cell * cell);
        store_units(to, j, hidden, gc * next * (1.0f - in) * in);
        store_units(to + hidden, j, hidden, gc * load_units(before + row[r] * hidden, j, hidden) * (1.0f - forget) * forget);
        store_units(to + 2 * hidden, j, hidden, gc * in * (1.0f - next * next));
        store_units(to + 3 * hidden, j, hidden, g * cell * (1.0f - out) * out);
        vstore16(gc * forget, 0, dc + r * width + j);
      }
    }
    __global const float* w = packed;
    for (int j = 0; j < hidden; j += 64) {
      float16 sum[ROWS][4];
      EACH_ROW EACH_PART sum[r][g] = 0;
      for (int k = 0; k < 4 * hidden; k++, w += 64) {
        float16 part[4];
        EACH_PART part[g] = vload16(g, w);
        EACH_ROW {
          const float16 x = (float16)d[row[r] * 4 * hidden + k];
          EACH_PART sum[r][g] = fma(part[g], x, sum[r][g]);
        }
      }
      EACH_ROW EACH_PART vstore16(sum[r][g], g, dh + r * width + j);
    }
  }
  for (int r = 0; r < count; r++)
    for (int j = 0; j < hidden; j += 16) {
      store_units(grad_h0 + row[r] * hidden, j, hidden, vload16(0, dh + r * width + j));
      store_units(grad_c0 + row[r] * hidden, j, hidden, vload16(0, dc + r * width + j));
    }
}

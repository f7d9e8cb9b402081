#include "support.h"

#include "ops/rnn/rnn.h"
#include "ops/rnn/sequence.h"

#include <algorithm>

using namespace ocl;
using namespace ocl::ops;
using namespace ocl::testing;

namespace {

using Vector = std::vector<double>;
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Cell {
  int64_t rows, hidden;
  TensorView view(const Array<float>& a, int64_t parts) const {
    return TensorView::contiguous(a.data(), DType::float32, {rows, parts * hidden});
  }
  TensorView bias(const Array<float>& a, int64_t parts) const {
    return TensorView::contiguous(a.data(), DType::float32, {parts * hidden});
  }
};

const std::vector<Cell> cells{{1, 1}, {3, 61}, {2, 523}, {5, 16}};

// gates[row][k][j] from both products and, when given, both biases
double gate(const std::vector<float>& a, const std::vector<float>& b, int count, const Cell& c, int64_t row, int k,
            int64_t j) {
  const size_t i = (row * count + k) * c.hidden + j;
  return double(a[i]) + b[i];
}

}  // namespace

TEST(Rnn, LstmCell) {
  for (const Cell& c : cells)
    for (bool biased : {false, true}) {
      const size_t n = c.rows * c.hidden;
      Array<float> in(random_values<float>(4 * n, 1, -3, 3)), re(random_values<float>(4 * n, 2, -3, 3)),
          cx(random_values<float>(n, 3));
      Array<float> b1(random_values<float>(4 * c.hidden, 4)), b2(random_values<float>(4 * c.hidden, 5));
      Array<float> hy(n), cy(n), ws(4 * n);
      CellGates gates{c.view(in, 4), c.view(re, 4), {}, {}};
      if (biased) gates.input_bias = c.bias(b1, 4), gates.recurrent_bias = c.bias(b2, 4);
      lstm_cell(queue(), gates, c.view(cx, 1), c.view(hy, 1), c.view(cy, 1), c.view(ws, 4));
      const auto a = in.host(), b = re.host(), x1 = b1.host(), x2 = b2.host(), state = cx.host(), h = hy.host(),
                 cell = cy.host(), w = ws.host();
      for (int64_t row = 0; row < c.rows; ++row)
        for (int64_t j = 0; j < c.hidden; ++j) {
          double g[4];
          for (int k = 0; k < 4; ++k) {
            g[k] = gate(a, b, 4, c, row, k, j) + (biased ? x1[k * c.hidden + j] + x2[k * c.hidden + j] : 0);
            g[k] = k == 2 ? std::tanh(g[k]) : sigmoid(g[k]);
            ASSERT_NEAR(w[(row * 4 + k) * c.hidden + j], g[k], 2e-6);
          }
          const double expected = g[1] * state[row * c.hidden + j] + g[0] * g[2];
          ASSERT_NEAR(cell[row * c.hidden + j], expected, 2e-6);
          ASSERT_NEAR(h[row * c.hidden + j], g[3] * std::tanh(expected), 2e-6);
        }
    }
}

TEST(Rnn, LstmCellBackward) {
  for (const Cell& c : cells)
    for (int given : {1, 2, 3}) {
      const size_t n = c.rows * c.hidden;
      Array<float> dh(random_values<float>(n, 1)), dc(random_values<float>(n, 2)), cx(random_values<float>(n, 3)),
          cy(random_values<float>(n, 4));
      Array<float> ws(random_values<float>(4 * n, 5, 0.1, 0.9)), gates(4 * n), dcx(n);
      lstm_cell_backward(queue(), given & 1 ? c.view(dh, 1) : TensorView{}, given & 2 ? c.view(dc, 1) : TensorView{},
                         c.view(cx, 1), c.view(cy, 1), c.view(ws, 4), c.view(gates, 4), c.view(dcx, 1));
      const auto h = dh.host(), d = dc.host(), x = cx.host(), y = cy.host(), w = ws.host(), out = gates.host(),
                 out_cx = dcx.host();
      for (size_t e = 0; e < n; ++e) {
        const size_t row = e / c.hidden, j = e % c.hidden;
        const auto at = [&](int k) { return (row * 4 + k) * c.hidden + j; };
        const double i = w[at(0)], f = w[at(1)], g = w[at(2)], o = w[at(3)], t = std::tanh(y[e]);
        const double grad_h = given & 1 ? h[e] : 0, grad_c = (given & 2 ? d[e] : 0) + grad_h * o * (1 - t * t);
        ASSERT_NEAR(out_cx[e], grad_c * f, 2e-6);
        ASSERT_NEAR(out[at(0)], grad_c * g * i * (1 - i), 2e-6);
        ASSERT_NEAR(out[at(1)], grad_c * x[e] * f * (1 - f), 2e-6);
        ASSERT_NEAR(out[at(2)], grad_c * i * (1 - g * g), 2e-6);
        ASSERT_NEAR(out[at(3)], grad_h * t * o * (1 - o), 2e-6);
      }
    }
}

TEST(Rnn, GruCellAndBackward) {
  for (const Cell& c : cells)
    for (bool biased : {false, true}) {
      const size_t n = c.rows * c.hidden;
      Array<float> in(random_values<float>(3 * n, 1, -3, 3)), re(random_values<float>(3 * n, 2, -3, 3)),
          hx(random_values<float>(n, 3));
      Array<float> b1(random_values<float>(3 * c.hidden, 4)), b2(random_values<float>(3 * c.hidden, 5)),
          dh(random_values<float>(n, 6));
      Array<float> hy(n), ws(5 * n), din(3 * n), dre(3 * n), dhx(n);
      CellGates gates{c.view(in, 3), c.view(re, 3), {}, {}};
      if (biased) gates.input_bias = c.bias(b1, 3), gates.recurrent_bias = c.bias(b2, 3);
      gru_cell(queue(), gates, c.view(hx, 1), c.view(hy, 1), c.view(ws, 5));
      gru_cell_backward(queue(), c.view(dh, 1), c.view(ws, 5), c.view(din, 3), c.view(dre, 3), c.view(dhx, 1));
      const auto a = in.host(), b = re.host(), x1 = b1.host(), x2 = b2.host(), state = hx.host(), out = hy.host(),
                 w = ws.host(), grad = dh.host();
      const auto gi = din.host(), gr = dre.host(), gx = dhx.host();
      for (size_t e = 0; e < n; ++e) {
        const int64_t row = e / c.hidden, j = e % c.hidden;
        const auto bias = [&](const std::vector<float>& v, int k) { return biased ? double(v[k * c.hidden + j]) : 0; };
        const auto at = [&](int k) { return (row * 3 + k) * c.hidden + j; };
        const double r = sigmoid(gate(a, b, 3, c, row, 0, j) + bias(x1, 0) + bias(x2, 0));
        const double z = sigmoid(gate(a, b, 3, c, row, 1, j) + bias(x1, 1) + bias(x2, 1));
        const double hn = b[at(2)] + bias(x2, 2), m = std::tanh(a[at(2)] + bias(x1, 2) + r * hn), h = state[e];
        ASSERT_NEAR(out[e], m + z * (h - m), 3e-6);
        const double saved[5] = {r, z, m, h, hn};
        for (int k = 0; k < 5; ++k) ASSERT_NEAR(w[(row * 5 + k) * c.hidden + j], saved[k], 3e-6) << k;
        const double dn = grad[e] * (1 - z) * (1 - m * m), dr = dn * hn * r * (1 - r),
                     dz = grad[e] * (h - m) * z * (1 - z);
        ASSERT_NEAR(gx[e], grad[e] * z, 3e-6);
        ASSERT_NEAR(gi[at(0)], dr, 5e-6);
        ASSERT_NEAR(gi[at(1)], dz, 5e-6);
        ASSERT_NEAR(gi[at(2)], dn, 5e-6);
        ASSERT_NEAR(gr[at(0)], dr, 5e-6);
        ASSERT_NEAR(gr[at(1)], dz, 5e-6);
        ASSERT_NEAR(gr[at(2)], dn * r, 5e-6);
      }
    }
}

// A whole layer against the formulas in double, and its gradients against
// differences of them.
struct Layer {
  RnnSequence size;
  std::vector<float> w, h0, c0, projected;

  Layer(int64_t steps, int64_t rows, int64_t hidden, bool reverse)
      : size{steps, rows, hidden, reverse},
        w(random_values<float>(4 * hidden * hidden, 1, -0.3, 0.3)),
        h0(random_values<float>(rows * hidden, 2)),
        c0(random_values<float>(rows * hidden, 3)),
        projected(random_values<float>(steps * rows * 4 * hidden, 4, -2, 2)) {}

  struct Result {
    Vector gates, output, cells;
  };
  Result run() const {
    const int64_t hidden = size.hidden, rows = size.rows;
    Result r{Vector(projected.size()), Vector(size.steps * rows * hidden), Vector(size.steps * rows * hidden)};
    Vector h(h0.begin(), h0.end()), c(c0.begin(), c0.end());
    for (int64_t s = 0; s < size.steps; ++s) {
      const int64_t t = size.reverse ? size.steps - 1 - s : s;
      const Vector before = h;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t j = 0; j < hidden; ++j) {
          double g[4];
          for (int64_t k = 0; k < 4; ++k) {
            const int64_t at = ((t * rows + row) * 4 + k) * hidden + j;
            g[k] = projected[at];
            for (int64_t i = 0; i < hidden; ++i)
              g[k] += double(w[(k * hidden + j) * hidden + i]) * before[row * hidden + i];
            r.gates[at] = g[k] = k == 2 ? std::tanh(g[k]) : sigmoid(g[k]);
          }
          double& cell = c[row * hidden + j];
          cell = g[1] * cell + g[0] * g[2];
          h[row * hidden + j] = g[3] * std::tanh(cell);
          r.cells[(t * rows + row) * hidden + j] = cell;
          r.output[(t * rows + row) * hidden + j] = h[row * hidden + j];
        }
    }
    return r;
  }
};

void expect_near(const std::vector<float>& actual, const Vector& expected, double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << what << " " << i;
}

TEST(Rnn, LstmSequence) {
  for (const auto& [steps, rows, hidden, reverse] : std::vector<std::tuple<int64_t, int64_t, int64_t, bool>>{
           {1, 1, 1, false}, {5, 3, 16, true}, {4, 6, 61, false}, {3, 9, 130, true}}) {
    const Layer layer(steps, rows, hidden, reverse);
    const Layer::Result expected = layer.run();
    const size_t n = steps * rows * hidden;
    Array<float> w(layer.w), packed(rnn_packed_elements(4, hidden, false)), h0(layer.h0), c0(layer.c0),
        gates(layer.projected), output(n), cells(n);
    rnn_pack(queue(), w.data(), packed.data(), 4, hidden, false);
    lstm_sequence(queue(), layer.size, packed.data(), h0.data(), c0.data(), gates.data(), output.data(), cells.data());
    expect_near(gates.host(), expected.gates, 1e-5, "gate");
    expect_near(cells.host(), expected.cells, 1e-5, "cell");
    expect_near(output.host(), expected.output, 1e-5, "output");
  }
}

TEST(Rnn, LstmSequenceBackward) {
  for (bool reverse : {false, true})
    for (int given = 1; given < 8; ++given) {
      Layer layer(3, 5, 7, reverse);
      const auto [steps, rows, hidden, ignored] = layer.size;
      const size_t n = steps * rows * hidden, m = rows * hidden, last = (reverse ? 0 : steps - 1) * m;
      const auto d_out = random_values<float>(n, 5), d_hn = random_values<float>(m, 6),
                 d_cn = random_values<float>(m, 7);
      const auto objective = [&] {
        const Layer::Result r = layer.run();
        double sum = 0;
        for (size_t i = 0; given & 1 && i < n; ++i) sum += r.output[i] * d_out[i];
        for (size_t i = 0; i < m; ++i)
          sum += (given & 2 ? r.output[last + i] * d_hn[i] : 0) + (given & 4 ? r.cells[last + i] * d_cn[i] : 0);
        return sum;
      };
      const Layer::Result r = layer.run();
      Array<float> w(layer.w), packed(rnn_packed_elements(4, hidden, true)), c0(layer.c0), g_out(d_out), g_hn(d_hn),
          g_cn(d_cn);
      Array<float> gates(std::vector<float>(r.gates.begin(), r.gates.end())),
          cells(std::vector<float>(r.cells.begin(), r.cells.end()));
      Array<float> d_gates(4 * n), d_h0(m), d_c0(m);
      rnn_pack(queue(), w.data(), packed.data(), 4, hidden, true);
      lstm_sequence_backward(queue(), layer.size, packed.data(), gates.data(), cells.data(), c0.data(),
                             {given & 1 ? g_out.data() : nullptr, given & 2 ? g_hn.data() : nullptr,
                              given & 4 ? g_cn.data() : nullptr, d_gates.data(), d_h0.data(), d_c0.data()});
      const auto check = [&](std::vector<float>& values, const std::vector<float>& gradient, const char* what) {
        for (size_t i = 0; i < values.size(); i += 3) {
          const float kept = values[i], high = kept + 1e-3f, low = kept - 1e-3f;
          values[i] = high;
          const double up = objective();
          values[i] = low;
          const double down = objective();
          values[i] = kept;
          ASSERT_NEAR(gradient[i], (up - down) / (double(high) - low), 1e-4) << what << " " << i << " given " << given;
        }
      };
      check(layer.projected, d_gates.host(), "gates");
      check(layer.h0, d_h0.host(), "h0");
      check(layer.c0, d_c0.host(), "c0");
    }
}

// As Layer, of a GRU.
struct GruLayer {
  RnnSequence size;
  std::vector<float> w, h0, bias, projected;

  GruLayer(int64_t steps, int64_t rows, int64_t hidden, bool reverse)
      : size{steps, rows, hidden, reverse},
        w(random_values<float>(3 * hidden * hidden, 1, -0.3, 0.3)),
        h0(random_values<float>(rows * hidden, 2)),
        bias(random_values<float>(hidden, 3)),
        projected(random_values<float>(steps * rows * 3 * hidden, 4, -2, 2)) {}

  struct Result {
    Vector gates, recurrent, output;
  };
  // shift [steps, rows, 3, hidden]: added to the recurrent sums
  Result run(const Vector& shift = {}) const {
    const int64_t hidden = size.hidden, rows = size.rows;
    Result r{Vector(projected.size()), Vector(size.steps * rows * hidden), Vector(size.steps * rows * hidden)};
    Vector h(h0.begin(), h0.end());
    for (int64_t s = 0; s < size.steps; ++s) {
      const int64_t t = size.reverse ? size.steps - 1 - s : s;
      const Vector before = h;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t j = 0; j < hidden; ++j) {
          const int64_t at = (t * rows + row) * 3 * hidden + j, to = (t * rows + row) * hidden + j;
          double sum[3] = {0, 0, bias[j]};
          for (int64_t k = 0; k < 3; ++k) {
            for (int64_t i = 0; i < hidden; ++i)
              sum[k] += double(w[(k * hidden + j) * hidden + i]) * before[row * hidden + i];
            if (!shift.empty()) sum[k] += shift[at + k * hidden];
          }
          const double reset = sigmoid(projected[at] + sum[0]), update = sigmoid(projected[at + hidden] + sum[1]);
          const double next = std::tanh(projected[at + 2 * hidden] + reset * sum[2]);
          r.gates[at] = reset, r.gates[at + hidden] = update, r.gates[at + 2 * hidden] = next;
          r.recurrent[to] = sum[2];
          r.output[to] = h[row * hidden + j] = next + update * (before[row * hidden + j] - next);
        }
    }
    return r;
  }
};

TEST(Rnn, GruSequence) {
  for (const auto& [steps, rows, hidden, reverse] : std::vector<std::tuple<int64_t, int64_t, int64_t, bool>>{
           {1, 1, 1, false}, {5, 3, 16, true}, {4, 6, 61, false}, {3, 9, 130, true}}) {
    for (bool biased : {true, false}) {
      GruLayer layer(steps, rows, hidden, reverse);
      if (!biased) std::fill(layer.bias.begin(), layer.bias.end(), 0.f);
      const GruLayer::Result expected = layer.run();
      const size_t n = steps * rows * hidden;
      Array<float> w(layer.w), packed(rnn_packed_elements(3, hidden, false)), h0(layer.h0), bias(layer.bias),
          gates(layer.projected), recurrent(n), output(n);
      rnn_pack(queue(), w.data(), packed.data(), 3, hidden, false);
      gru_sequence(queue(), layer.size, packed.data(), h0.data(), biased ? bias.data() : nullptr, gates.data(),
                   recurrent.data(), output.data());
      expect_near(gates.host(), expected.gates, 1e-5, "gate");
      expect_near(recurrent.host(), expected.recurrent, 1e-5, "recurrent");
      expect_near(output.host(), expected.output, 1e-5, "output");
    }
  }
}

TEST(Rnn, GruSequenceBackward) {
  for (bool reverse : {false, true})
    for (int given = 1; given < 4; ++given) {
      GruLayer layer(3, 5, 7, reverse);
      const auto [steps, rows, hidden, ignored] = layer.size;
      const size_t n = steps * rows * hidden, m = rows * hidden, last = (reverse ? 0 : steps - 1) * m;
      const auto d_out = random_values<float>(n, 5), d_hn = random_values<float>(m, 6);
      Vector shift(3 * n);
      const auto objective = [&] {
        const GruLayer::Result r = layer.run(shift);
        double sum = 0;
        for (size_t i = 0; given & 1 && i < n; ++i) sum += r.output[i] * d_out[i];
        for (size_t i = 0; given & 2 && i < m; ++i) sum += r.output[last + i] * d_hn[i];
        return sum;
      };
      const GruLayer::Result r = layer.run();
      const auto floats = [](const Vector& v) { return std::vector<float>(v.begin(), v.end()); };
      Array<float> w(layer.w), packed(rnn_packed_elements(3, hidden, true)), h0(layer.h0), g_out(d_out), g_hn(d_hn);
      Array<float> gates(floats(r.gates)), recurrent(floats(r.recurrent)), output(floats(r.output)), d_gates(3 * n),
          d_recurrent(3 * n), d_h0(m);
      rnn_pack(queue(), w.data(), packed.data(), 3, hidden, true);
      gru_sequence_backward(queue(), layer.size, packed.data(), gates.data(), recurrent.data(), output.data(),
                            h0.data(),
                            {given & 1 ? g_out.data() : nullptr, given & 2 ? g_hn.data() : nullptr, d_gates.data(),
                             d_recurrent.data(), d_h0.data()});
      const auto check = [&](auto& values, const std::vector<float>& gradient, const char* what) {
        for (size_t i = 0; i < values.size(); i += 3) {
          const auto kept = values[i];
          values[i] = kept + 1e-3f;
          const double up = objective(), high = values[i];
          values[i] = kept - 1e-3f;
          const double down = objective(), low = values[i];
          values[i] = kept;
          ASSERT_NEAR(gradient[i], (up - down) / (high - low), 1e-4) << what << " " << i << " given " << given;
        }
      };
      check(layer.projected, d_gates.host(), "gates");
      check(shift, d_recurrent.host(), "recurrent sums");
      check(layer.h0, d_h0.host(), "h0");
    }
}

TEST(Rnn, Errors) {
  Array<float> small(6), state(6);
  const Cell c{2, 3};
  CellGates gates{c.view(small, 1), c.view(small, 1), {}, {}};
  EXPECT_THROW(lstm_cell(queue(), gates, c.view(state, 1), c.view(state, 1), c.view(state, 1), c.view(state, 1)),
               InvalidArgument);
}

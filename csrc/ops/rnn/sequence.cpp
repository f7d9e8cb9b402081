#include "ops/rnn/sequence.h"

#include <stdexcept>

namespace ocl::ops {

namespace {

constexpr int64_t rows_per_task = 4;  // ROWS of the fat kernels

struct Sites {
  KernelSite fat, simt;
  Kernel& get(Device& device) { return (device.fat() ? fat : simt).get(device); }
};

int64_t tasks(const Device& device, int64_t rows) { return device.fat() ? ceil_div(rows, rows_per_task) : rows; }
size_t local_size(const Device& device, int64_t hidden) { return device.fat() ? 1 : hidden > 64 ? 256 : 64; }

void check(const LstmSequence& s) {
  if (s.steps < 1 || s.rows < 1 || s.hidden < 1 || s.steps > INT32_MAX || s.rows > INT32_MAX || s.hidden > 4096)
    throw std::invalid_argument("lstm_sequence: sizes out of range");
}

}  // namespace

bool lstm_sequence_suits(const Device& device, int64_t rows, int64_t hidden) {
  const auto& c = device.capabilities();
  if (hidden > 1024 || rows < 1 || c.local_memory < 48 << 10 || c.max_work_group < 256) return false;
  // Larger weights are worth a pass by all units together.
  return hidden <= 256 || tasks(device, rows) >= c.compute_units;
}

int64_t lstm_packed_elements(int64_t hidden, bool backward) {
  return backward ? ceil_div(hidden, 64) * 64 * 4 * hidden : ceil_div(hidden, 16) * 64 * hidden;
}

void lstm_pack(Queue& queue, const float* weight, float* packed, int64_t hidden, bool backward) {
  static Sites sites{{"rnn_sequence.cl", "lstm_pack"}, {"rnn_sequence_simt.cl", "lstm_pack"}};
  Device& device = queue.device();
  const size_t local = device.fat() ? 1 : 64, panels = ceil_div(hidden, backward ? 64 : 16);
  launch(queue, sites.get(device), panels * local, local, weight, packed, static_cast<int32_t>(hidden), int32_t{backward});
}

void lstm_sequence(Queue& queue, const LstmSequence& s, const float* packed, const float* h0, const float* c0, float* gates, float* output,
                   float* cells) {
  check(s);
  static Sites sites{{"rnn_sequence.cl", "lstm_sequence"}, {"rnn_sequence_simt.cl", "lstm_sequence"}};
  Device& device = queue.device();
  const size_t local = local_size(device, s.hidden), global = tasks(device, s.rows) * local;
  const auto steps = static_cast<int32_t>(s.steps), rows = static_cast<int32_t>(s.rows), hidden = static_cast<int32_t>(s.hidden);
  if (device.fat())
    launch(queue, sites.get(device), global, local, packed, h0, c0, gates, output, cells, steps, rows, hidden, int32_t{s.reverse});
  else
    launch(queue, sites.get(device), global, local, packed, h0, c0, gates, output, cells, steps, rows, hidden, int32_t{s.reverse},
           LocalMemory{s.hidden * sizeof(float)});
}

void lstm_sequence_backward(Queue& queue, const LstmSequence& s, const float* packed, const float* gates, const float* cells, const float* c0,
                            const LstmGradients& g) {
  check(s);
  static Sites sites{{"rnn_sequence.cl", "lstm_sequence_backward"}, {"rnn_sequence_simt.cl", "lstm_sequence_backward"}};
  Device& device = queue.device();
  const size_t local = local_size(device, s.hidden);
  const int64_t floats = device.fat() ? 2 * rows_per_task * round_up(s.hidden, int64_t{64}) : 6 * s.hidden;
  launch(queue, sites.get(device), tasks(device, s.rows) * local, local, packed, gates, cells, c0, g.output, g.hn, g.cn, g.gates, g.h0, g.c0,
         static_cast<int32_t>(s.steps), static_cast<int32_t>(s.rows), static_cast<int32_t>(s.hidden), int32_t{s.reverse},
         int32_t{g.output != nullptr}, int32_t{g.hn != nullptr}, int32_t{g.cn != nullptr}, LocalMemory{floats * sizeof(float)});
}

}  // namespace ocl::ops

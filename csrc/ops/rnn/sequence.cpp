#include "ops/rnn/sequence.h"

#include <stdexcept>

namespace ocl::ops {

namespace {

constexpr int64_t rows_per_task = 4;  // ROWS of the CPU kernels

struct Sites {
  KernelSite cpu, gpu;
  Kernel& get(Device& device) { return (device.cpu_style() ? cpu : gpu).get(device); }
};

// What both kernels of a layer are launched with.
struct Launch {
  Queue& queue;
  Kernel& kernel;
  Range global, local;
  int32_t steps, rows, hidden, reverse;

  Launch(Queue& q, Sites& sites, const RnnSequence& s) : queue(q), kernel(sites.get(q.device())) {
    if (s.steps < 1 || s.rows < 1 || s.hidden < 1 || s.steps > INT32_MAX || s.rows > INT32_MAX || s.hidden > 4096)
      throw InvalidArgument("rnn_sequence: sizes out of range");
    const bool cpu = q.device().cpu_style();
    const size_t size = cpu ? 1 : s.hidden > 64 ? 256 : 64;
    global = Range(static_cast<size_t>(cpu ? ceil_div(s.rows, rows_per_task) : s.rows) * size), local = Range(size);
    steps = static_cast<int32_t>(s.steps), rows = static_cast<int32_t>(s.rows), hidden = static_cast<int32_t>(s.hidden),
    reverse = s.reverse;
  }
  bool cpu_style() const { return queue.device().cpu_style(); }
  // Local memory for so many rows of states per sequence: for CPU tasks, for work-groups
  LocalMemory memory(int64_t cpu_rows, int64_t gpu_rows) const {
    const int64_t floats = cpu_style() ? cpu_rows * rows_per_task * round_up(hidden, int64_t{64}) : gpu_rows * hidden;
    return {static_cast<size_t>(floats) * sizeof(float)};
  }
  template <class... Arguments>
  void operator()(const Arguments&... arguments) const {
    launch(queue, kernel, global, local, arguments...);
  }
};

}  // namespace

bool rnn_sequence_suits(const Device& device, int64_t rows, int64_t hidden) {
  const auto& c = device.capabilities();
  if (hidden > 1024 || rows < 1 || c.local_memory < 48 << 10 || c.max_work_group < 256) return false;
  // Larger weights are worth a pass by all units together.
  return hidden <= 256 || (device.cpu_style() ? ceil_div(rows, rows_per_task) : rows) >= c.compute_units;
}

int64_t rnn_packed_elements(int64_t gates, int64_t hidden, bool backward) {
  return backward ? ceil_div(hidden, 64) * 64 * gates * hidden : ceil_div(hidden, 16) * 16 * gates * hidden;
}

void rnn_pack(Queue& queue, const float* weight, float* packed, int64_t gates, int64_t hidden, bool backward) {
  static KernelSite site("rnn/pack.cl", "rnn_pack");
  Device& device = queue.device();
  const size_t local = device.cpu_style() ? 1 : 64, panels = static_cast<size_t>(ceil_div(hidden, backward ? 64 : 16));
  launch(queue, site.get(device), panels * local, local, weight, packed, static_cast<int32_t>(gates),
         static_cast<int32_t>(hidden), int32_t{backward});
}

void lstm_sequence(Queue& queue, const RnnSequence& s, const float* packed, const float* h0, const float* c0,
                   float* gates, float* output, float* cells) {
  static Sites sites{{"rnn/sequence.cpu.cl", "lstm_sequence"}, {"rnn/sequence.gpu.cl", "lstm_sequence"}};
  const Launch run(queue, sites, s);
  if (run.cpu_style())
    run(packed, h0, c0, gates, output, cells, run.steps, run.rows, run.hidden, run.reverse);
  else
    run(packed, h0, c0, gates, output, cells, run.steps, run.rows, run.hidden, run.reverse, run.memory(0, 1));
}

void lstm_sequence_backward(Queue& queue, const RnnSequence& s, const float* packed, const float* gates,
                            const float* cells, const float* c0, const LstmGradients& g) {
  static Sites sites{{"rnn/sequence.cpu.cl", "lstm_sequence_backward"},
                     {"rnn/sequence.gpu.cl", "lstm_sequence_backward"}};
  const Launch run(queue, sites, s);
  run(packed, gates, cells, c0, g.output, g.hn, g.cn, g.gates, g.h0, g.c0, run.steps, run.rows, run.hidden, run.reverse,
      int32_t{g.output != nullptr}, int32_t{g.hn != nullptr}, int32_t{g.cn != nullptr}, run.memory(2, 6));
}

void gru_sequence(Queue& queue, const RnnSequence& s, const float* packed, const float* h0, const float* bias,
                  float* gates, float* recurrent, float* output) {
  static Sites sites{{"rnn/sequence_gru.cpu.cl", "gru_sequence"}, {"rnn/sequence_gru.gpu.cl", "gru_sequence"}};
  const Launch run(queue, sites, s);
  const int32_t biased = bias != nullptr;
  if (run.cpu_style())
    run(packed, h0, bias, gates, recurrent, output, run.steps, run.rows, run.hidden, run.reverse, biased);
  else
    run(packed, h0, bias, gates, recurrent, output, run.steps, run.rows, run.hidden, run.reverse, biased,
        run.memory(0, 1));
}

void gru_sequence_backward(Queue& queue, const RnnSequence& s, const float* packed, const float* gates,
                           const float* recurrent, const float* output, const float* h0, const GruGradients& g) {
  static Sites sites{{"rnn/sequence_gru.cpu.cl", "gru_sequence_backward"},
                     {"rnn/sequence_gru.gpu.cl", "gru_sequence_backward"}};
  const Launch run(queue, sites, s);
  run(packed, gates, recurrent, output, h0, g.output, g.hn, g.gates, g.recurrent, g.h0, run.steps, run.rows, run.hidden,
      run.reverse, int32_t{g.output != nullptr}, int32_t{g.hn != nullptr}, run.memory(1, 4));
}

}  // namespace ocl::ops

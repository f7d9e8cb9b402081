#include "ops/conv/conv.h"

#include "base/environment.h"
#include "ops/conv/depthwise.h"
#include "ops/conv/direct.h"
#include "ops/conv/implicit_gemm.h"
#include "ops/conv/patches.h"
#include "ops/conv/pointwise.h"
#include "ops/conv/reference.h"
#include "ops/conv/rows.h"
#include "ops/conv/simt.h"
#include "ops/conv/stem.h"
#include "ops/conv/strided_backward_data.h"
#include "ops/conv/tensor_cores.h"
#include "ops/conv/winograd.h"
#include "ops/core/build_failures.h"
#include "ops/core/tuning.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/permute.h"

#include <limits>
#include <optional>
#include <stdexcept>

namespace ocl::ops {
namespace {

std::vector<ConvAlgorithm> collect(ConvPass pass) {
  std::vector<ConvAlgorithm> result;
  for (std::span<const ConvAlgorithm> family : {
           pointwise_algorithms(),
           patches_algorithms(),
           depthwise_channels_algorithms(),
           winograd_algorithms(),
           rows_algorithms(),
           bfloat16_pairs_algorithms(),
           stem_algorithms(),
           stem_backward_data_algorithms(),
           strided_backward_data_algorithms(),
           depthwise_algorithms(),
           depthwise_simt_algorithms(),
           direct_algorithms(),
           implicit_gemm_algorithms(),
           tensor_core_pointwise_algorithms(),
           tensor_core_last_algorithms(),
           tensor_core_algorithms(),
           simt_algorithms(),
           reference_algorithms(),
       })
    for (const ConvAlgorithm& algorithm : family)
      if (algorithm.pass == pass) result.push_back(algorithm);
  return result;
}

// Errors: std::invalid_argument.
void check(const ConvProblem& p) {
  auto require = [](bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(std::string("convolution: ") + what);
  };
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  require(p.groups >= 1 && p.in_channels % p.groups == 0 && p.out_channels % p.groups == 0,
          "channels are not divisible by groups");
  require(p.batch <= limit && p.in_channels <= limit && p.out_channels <= limit, "batch or channels above 2^31 - 1");
  for (int d = 0; d < 3; ++d) {
    require(p.kernel[d] >= 1 && p.stride[d] >= 1 && p.dilation[d] >= 1 && p.padding[d] >= 0,
            "kernel, stride, dilation and padding must be positive");
    require(p.input[d] + 2 * p.padding[d] <= limit && p.output[d] * p.stride[d] <= limit,
            "a spatial size above 2^31 - 1");
    require((p.output[d] - 1) * p.stride[d] - 2 * p.padding[d] + p.dilation[d] * (p.kernel[d] - 1) < p.input[d] ||
                p.output[d] <= 0,
            "the output is larger than input, padding and kernel allow");
  }
}

ConvProblem channels_first(ConvProblem problem) {
  problem.channels_last = false;
  return problem;
}

// Both orders are the same memory when there is one channel or one pixel, for x and y alike.
bool order_matters(const ConvProblem& p) {
  return (p.in_channels > 1 && p.in_pixels() > 1) || (p.out_channels > 1 && p.out_pixels() > 1);
}

// A filter as large as its unpadded input sees it once: its taps are channels of a single pixel, and the convolution a
// product of matrices.
ConvProblem taps_as_channels(ConvProblem p) {
  constexpr std::array<int64_t, 3> one{1, 1, 1}, none{0, 0, 0};
  if (p.output != one || p.padding != none || p.kernel != p.input || p.channels_last || p.filters_last) return p;
  p.in_channels *= p.taps();
  p.input = p.kernel = p.stride = p.dilation = one;
  return p;
}

// The taps of a dimension that meet the input in some place: [first, first + count).
struct LiveTaps {
  int64_t first, count;
};

LiveTaps live_taps(const ConvProblem& p, int d) {
  const auto lives = [&](int64_t tap) {
    for (int64_t o = 0; o < p.output[d]; ++o)
      if (const int64_t at = o * p.stride[d] - p.padding[d] + tap * p.dilation[d]; at >= 0 && at < p.input[d])
        return true;
    return false;
  };
  LiveTaps live{0, p.kernel[d]};
  while (live.count > 1 && !lives(live.first)) ++live.first, --live.count;
  while (live.count > 1 && !lives(live.first + live.count - 1)) --live.count;
  return live;
}

// A filter of which only a part ever meets the input, as 3 x 3 on an image of one pixel or under a dilation that
// exceeds the image: the convolution with that part. Returns false, having done nothing, where nothing can be left
// away.
bool run_live_taps(Queue& queue, ConvPass pass, const ConvProblem& p, const ConvOperands& operands) {
  ConvProblem live = p;
  int64_t offset = 0;
  for (int d = 0; d < 3; ++d) {
    if (p.padding[d] == 0) {
      offset *= p.kernel[d];
      continue;
    }
    const LiveTaps taps = live_taps(p, d);
    const int64_t padding = p.padding[d] - taps.first * p.dilation[d];
    offset *= p.kernel[d];
    // Left away on one side alone, taps of the last results may leave the padding that the problem has on both.
    const int64_t last = (p.output[d] - 1) * p.stride[d] - padding + p.dilation[d] * (taps.count - 1);
    if (padding < 0 || last >= p.input[d] + padding) continue;
    live.kernel[d] = taps.count;
    live.padding[d] = padding;
    offset += taps.first;
  }
  if (live.kernel == p.kernel) return false;
  live.filters_last = false;
  const int64_t channels = p.in_per_group(), tap = p.filters_last ? channels : 1;
  const int64_t sizes[] = {p.out_channels, channels, live.kernel[0], live.kernel[1], live.kernel[2]};
  const int64_t strides[] = {channels * p.taps(), p.filters_last ? 1 : p.taps(), p.kernel[1] * p.kernel[2] * tap,
                             p.kernel[2] * tap, tap};
  const int64_t bytes = static_cast<int64_t>(size_of(p.dtype));
  Workspace part(queue, static_cast<size_t>(live.w_numel() * bytes));
  const TensorView dense = TensorView::contiguous(part.data(), p.dtype, sizes);
  const TensorView inside =
      TensorView::strided(static_cast<char*>(operands.w) + offset * tap * bytes, p.dtype, sizes, strides);
  ConvOperands with_part = operands;
  with_part.w = part.data();
  if (pass != ConvPass::backward_weight) copy(queue, dense, inside);
  convolution(queue, pass, live, with_part);
  if (pass == ConvPass::backward_weight) {
    zero(queue, TensorView::contiguous(operands.w, p.dtype, {p.w_numel()}));
    copy(queue, inside, dense);
  }
  return true;
}

// w goes through a copy in the order that the algorithm takes.
void run_with_ordered_filters(const ConvAlgorithm& algorithm, Queue& queue, ConvProblem p,
                              const ConvOperands& operands);

void run_direct(const ConvAlgorithm& algorithm, Queue& queue, const ConvProblem& problem,
                const ConvOperands& operands) {
  if (problem.filters_last && !algorithm.takes_filters_last(problem))
    return run_with_ordered_filters(algorithm, queue, problem, operands);
  Workspace workspace(queue, algorithm.workspace(problem, queue.device()));
  algorithm.run(queue, problem, operands, workspace.data());
}

void run_with_ordered_filters(const ConvAlgorithm& algorithm, Queue& queue, ConvProblem p,
                              const ConvOperands& operands) {
  p.filters_last = false;
  const size_t bytes = size_of(p.dtype);
  Workspace ordered(queue, static_cast<size_t>(p.w_numel()) * bytes);
  ConvOperands inner = operands;
  inner.w = ordered.data();
  if (algorithm.pass != ConvPass::backward_weight)
    transpose_planes(queue, bytes, p.out_channels, p.taps(), p.in_per_group(), operands.w, inner.w);
  run_direct(algorithm, queue, p, inner);
  if (algorithm.pass == ConvPass::backward_weight)
    transpose_planes(queue, bytes, p.out_channels, p.in_per_group(), p.taps(), inner.w, operands.w);
}

// x and y go through channels-first copies around the algorithm; the one that the pass computes is copied back.
void run_reordered(const ConvAlgorithm& algorithm, Queue& queue, const ConvProblem& p, const ConvOperands& operands) {
  const size_t bytes = size_of(p.dtype);
  struct Side {
    void* caller;
    int64_t channels, pixels;
    bool output;
  };
  const Side sides[] = {{operands.x, p.in_channels, p.in_pixels(), algorithm.pass == ConvPass::backward_data},
                        {operands.y, p.out_channels, p.out_pixels(), algorithm.pass == ConvPass::forward}};
  ConvOperands inner = operands;
  void** members[] = {&inner.x, &inner.y};
  std::optional<Workspace> copies[2];
  for (int i = 0; i < 2; ++i) {
    const Side& side = sides[i];
    if (side.channels <= 1 || side.pixels <= 1) continue;
    copies[i].emplace(queue, p.batch * side.channels * side.pixels * bytes);
    *members[i] = copies[i]->data();
    if (!side.output)
      transpose_planes(queue, bytes, p.batch, side.pixels, side.channels, side.caller, copies[i]->data());
  }
  run_direct(algorithm, queue, channels_first(p), inner);
  for (int i = 0; i < 2; ++i)
    if (sides[i].output && copies[i])
      transpose_planes(queue, bytes, p.batch, sides[i].channels, sides[i].pixels, copies[i]->data(), sides[i].caller);
}

using Algorithms = std::span<const ConvAlgorithm>;

const ConvAlgorithm* find(Algorithms algorithms, std::string_view name, const ConvProblem& problem,
                          const Device& device) {
  for (const ConvAlgorithm& algorithm : algorithms)
    if (algorithm.name == name && !conv_refusal(algorithm, problem, device)) return &algorithm;
  return nullptr;
}

const ConvAlgorithm& first(Algorithms algorithms, const ConvProblem& problem, const Device& device) {
  for (const ConvAlgorithm& algorithm : algorithms)
    if (!conv_refusal(algorithm, problem, device) && !algorithm.declines(problem, device)) return algorithm;
  return algorithms.back();
}

tuning::Problem tuning_problem(ConvPass pass, const ConvProblem& p) {
  constexpr std::string_view families[] = {"conv_forward", "conv_backward_data", "conv_backward_weight"};
  tuning::Problem key(families[static_cast<int>(pass)], p.dtype);
  key.add(p.channels_last).add(p.batch).add(p.groups).add(p.in_channels).add(p.out_channels);
  return key.add(p.input).add(p.output).add(p.kernel).add(p.stride).add(p.padding).add(p.dilation);
}

tuning::Result result_of(ConvPass pass, const ConvProblem& p, const ConvOperands& operands) {
  if (pass == ConvPass::forward) return {operands.y, p.dtype, p.y_numel()};
  if (pass == ConvPass::backward_data) return {operands.x, p.dtype, p.x_numel()};
  return {operands.w, p.dtype, p.w_numel()};
}

// The best guess and every other algorithm that can; "reference" only where there is nothing else, it may take seconds.
std::string_view measure(Queue& queue, const tuning::Problem& key, Algorithms algorithms, const ConvAlgorithm& guess,
                         ConvPass pass, const ConvProblem& p, const ConvOperands& operands) {
  std::vector<tuning::Candidate> candidates;
  auto add = [&](const ConvAlgorithm& algorithm) {
    candidates.push_back(
        {algorithm.name, [&queue, &algorithm, &p, &operands] { run_conv(algorithm, queue, p, operands); }});
  };
  add(guess);
  for (const ConvAlgorithm& algorithm : algorithms.first(algorithms.size() - 1))
    if (&algorithm != &guess && !conv_refusal(algorithm, p, queue.device())) add(algorithm);
  return tuning::measure(queue, key, candidates, result_of(pass, p, operands));
}

const ConvAlgorithm& choose(Queue& queue, ConvPass pass, const ConvProblem& problem, const ConvOperands& operands) {
  static const std::string forced = environment::get("TORCH_OCL_CONV").value_or("auto");
  const Device& device = queue.device();
  const Algorithms algorithms = conv_algorithms(pass);
  if (const ConvAlgorithm* found = forced == "auto" ? nullptr : find(algorithms, forced, problem, device))
    return *found;
  if (!tuning::active(device)) return first(algorithms, problem, device);
  const tuning::Problem key = tuning_problem(pass, problem);
  std::string_view name = tuning::choice(device, key);
  const ConvAlgorithm* known = name.empty() ? nullptr : find(algorithms, name, problem, device);
  if (known) return *known;
  const ConvAlgorithm& guess = first(algorithms, problem, device);
  if (!tuning::measuring()) return guess;
  known = find(algorithms, measure(queue, key, algorithms, guess, pass, problem, operands), problem, device);
  return known ? *known : guess;
}

}  // namespace

std::span<const ConvAlgorithm> conv_algorithms(ConvPass pass) {
  static const std::vector<ConvAlgorithm> lists[] = {collect(ConvPass::forward), collect(ConvPass::backward_data),
                                                     collect(ConvPass::backward_weight)};
  return lists[static_cast<int>(pass)];
}

const char* conv_refusal(const ConvAlgorithm& algorithm, const ConvProblem& problem, const Device& device) {
  if (const char* unbuilt = build_failures::reason(&algorithm, problem.dtype, device)) return unbuilt;
  const char* reason = algorithm.refuses(problem, device);
  return reason && problem.channels_last ? algorithm.refuses(channels_first(problem), device) : reason;
}

void run_conv(const ConvAlgorithm& algorithm, Queue& queue, const ConvProblem& problem, const ConvOperands& operands) {
  if (problem.channels_last && algorithm.refuses(problem, queue.device()))
    run_reordered(algorithm, queue, problem, operands);
  else
    run_direct(algorithm, queue, problem, operands);
}

void convolution(Queue& queue, ConvPass pass, const ConvProblem& problem, const ConvOperands& operands) {
  check(problem);
  require_dtype(queue.device(), problem.dtype, "convolution");
  const int64_t results = pass == ConvPass::forward         ? problem.y_numel()
                          : pass == ConvPass::backward_data ? problem.x_numel()
                                                            : problem.w_numel();
  if (results == 0) return;
  ConvProblem p = problem;
  p.channels_last = problem.channels_last && order_matters(problem);
  p.filters_last = problem.filters_last && p.in_per_group() > 1 && p.taps() > 1;
  p = taps_as_channels(p);
  // Nothing to sum over: only the reference is required to handle it.
  const bool empty = p.x_numel() == 0 || p.y_numel() == 0 || p.w_numel() == 0;
  if (!empty && run_live_taps(queue, pass, p, operands)) return;
  for (;;) {
    const ConvAlgorithm& algorithm = empty ? conv_algorithms(pass).back() : choose(queue, pass, p, operands);
    try {
      return run_conv(algorithm, queue, p, operands);
    } catch (const BuildError& error) {
      if (&algorithm == &conv_algorithms(pass).back()) throw;
      build_failures::add(&algorithm, algorithm.name, p.dtype, queue.device(), error.what());
    }
  }
}

}  // namespace ocl::ops

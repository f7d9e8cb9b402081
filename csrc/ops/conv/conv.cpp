#include "ops/conv/conv.h"

#include "base/environment.h"
#include "ops/conv/depthwise.h"
#include "ops/conv/direct.h"
#include "ops/conv/implicit_gemm.h"
#include "ops/conv/patches.h"
#include "ops/conv/plan.h"
#include "ops/conv/pointwise.h"
#include "ops/conv/reference.h"
#include "ops/conv/rows.h"
#include "ops/conv/simt.h"
#include "ops/conv/stem.h"
#include "ops/conv/strided_backward_data.h"
#include "ops/conv/tensor_cores.h"
#include "ops/conv/winograd.h"
#include "ops/core/build_failures.h"
#include "ops/core/plan_table.h"
#include "ops/core/precision.h"
#include "ops/core/tuning.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/permute.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

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

// Errors: InvalidArgument.
ConvProblem channels_first(ConvProblem problem) {
  problem.channels_last = false;
  return problem;
}

// Both orders are the same memory when there is one channel or one pixel, for x and y alike.
bool order_matters(const ConvProblem& p) {
  return (p.in_channels > 1 && p.in_pixels() > 1) || (p.out_channels > 1 && p.out_pixels() > 1);
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
// exceeds the image: the convolution with that part.
struct LivePart {
  ConvProblem problem;
  int64_t offset;  // of the part's first tap, in taps
};

// Nothing where no tap can be left away.
std::optional<LivePart> live_part(const ConvProblem& p) {
  LivePart part{p, 0};
  ConvProblem& live = part.problem;
  for (int d = 0; d < 3; ++d) {
    part.offset *= p.kernel[d];
    if (p.padding[d] == 0) continue;
    const LiveTaps taps = live_taps(p, d);
    const int64_t padding = p.padding[d] - taps.first * p.dilation[d];
    // Left away on one side alone, taps of the last results may leave the padding that the problem has on both.
    const int64_t last = (p.output[d] - 1) * p.stride[d] - padding + p.dilation[d] * (taps.count - 1);
    if (padding < 0 || last >= p.input[d] + padding) continue;
    live.kernel[d] = taps.count;
    live.padding[d] = padding;
    part.offset += taps.first;
  }
  if (live.kernel == p.kernel) return std::nullopt;
  live.filters_last = false;
  return part;
}

void run_live_part(Queue& queue, ConvPass pass, const LivePart& part, const ConvProblem& p,
                   const ConvOperands& operands) {
  const ConvProblem& live = part.problem;
  const int64_t channels = p.in_per_group(), tap = p.filters_last ? channels : 1;
  const int64_t sizes[] = {p.out_channels, channels, live.kernel[0], live.kernel[1], live.kernel[2]};
  const int64_t strides[] = {channels * p.taps(), p.filters_last ? 1 : p.taps(), p.kernel[1] * p.kernel[2] * tap,
                             p.kernel[2] * tap, tap};
  const int64_t bytes = static_cast<int64_t>(size_of(p.dtype));
  Workspace weights(queue, static_cast<size_t>(live.w_numel() * bytes));
  const TensorView dense = TensorView::contiguous(weights.data(), p.dtype, sizes);
  const TensorView inside =
      TensorView::strided(static_cast<char*>(operands.w) + part.offset * tap * bytes, p.dtype, sizes, strides);
  ConvOperands with_part = operands;
  with_part.w = weights.data();
  if (pass != ConvPass::backward_weight) copy(queue, dense, inside);
  convolution(queue, pass, live, with_part);
  if (pass == ConvPass::backward_weight) {
    zero(queue, TensorView::contiguous(operands.w, p.dtype, {p.w_numel()}));
    copy(queue, inside, dense);
  }
}

void run_inner(const ConvRoute& route, Queue& queue, const ConvOperands& operands) {
  Workspace workspace(queue, route.plan.workspace);
  route.plan.run(queue, route.inner, operands, workspace.data());
}

// w goes through a copy in the order that the algorithm takes.
void run_with_ordered_filters(const ConvRoute& route, Queue& queue, const ConvOperands& operands) {
  if (route.problem.filters_last == route.inner.filters_last) return run_inner(route, queue, operands);
  const ConvProblem& p = route.inner;
  const ConvPass pass = route.algorithm->pass;
  const size_t bytes = size_of(p.dtype);
  Workspace ordered(queue, static_cast<size_t>(p.w_numel()) * bytes);
  ConvOperands inner = operands;
  inner.w = ordered.data();
  if (pass != ConvPass::backward_weight)
    transpose_planes(queue, bytes, p.out_channels, p.taps(), p.in_per_group(), operands.w, inner.w);
  run_inner(route, queue, inner);
  if (pass == ConvPass::backward_weight)
    transpose_planes(queue, bytes, p.out_channels, p.in_per_group(), p.taps(), inner.w, operands.w);
}

// x and y go through channels-first copies around the algorithm; the one that the pass computes is copied back.
void run_reordered(const ConvRoute& route, Queue& queue, const ConvOperands& operands) {
  const ConvProblem& p = route.problem;
  const size_t bytes = size_of(p.dtype);
  struct Side {
    void* caller;
    int64_t channels, pixels;
    bool output;
  };
  const Side sides[] = {{operands.x, p.in_channels, p.in_pixels(), route.algorithm->pass == ConvPass::backward_data},
                        {operands.y, p.out_channels, p.out_pixels(), route.algorithm->pass == ConvPass::forward}};
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
  run_with_ordered_filters(route, queue, inner);
  for (int i = 0; i < 2; ++i)
    if (sides[i].output && copies[i])
      transpose_planes(queue, bytes, p.batch, sides[i].channels, sides[i].pixels, copies[i]->data(), sides[i].caller);
}

using Algorithms = std::span<const ConvAlgorithm>;

std::optional<ConvRoute> find(Algorithms algorithms, std::string_view name, const ConvProblem& problem,
                              const PlanTarget& target) {
  for (const ConvAlgorithm& algorithm : algorithms)
    if (algorithm.name == name)
      if (ConvRoute route = conv_route(algorithm, problem, target); !route.plan.refusal) return route;
  return std::nullopt;
}

// Whether the precision of the problem's products is a setting.
bool rounds_to_tf32(DType type, const Device& device) {
  return type == DType::float32 && !device.cpu_style() && allows_tf32(Tf32::conv);
}

tuning::Problem tuning_problem(ConvPass pass, const ConvProblem& p, const Device& device) {
  constexpr std::string_view families[] = {"conv_forward", "conv_backward_data", "conv_backward_weight"};
  tuning::Problem key(families[static_cast<int>(pass)], p.dtype);
  key.add(p.channels_last).add(p.batch).add(p.groups).add(p.in_channels).add(p.out_channels);
  key.add(p.input).add(p.output).add(p.kernel).add(p.stride).add(p.padding).add(p.dilation);
  return key.add(p.filters_last).add(rounds_to_tf32(p.dtype, device)).add(static_cast<int64_t>(winograd_mode()));
}

tuning::Result result_of(ConvPass pass, const ConvProblem& p, const ConvOperands& operands) {
  if (pass == ConvPass::forward) return {operands.y, p.dtype, p.y_numel()};
  if (pass == ConvPass::backward_data) return {operands.x, p.dtype, p.x_numel()};
  return {operands.w, p.dtype, p.w_numel()};
}

// The best guess and every other algorithm that can; "reference" only where there is nothing else, it may take seconds.
std::string_view measure(Queue& queue, const tuning::Problem& key, ConvRoute guess, ConvPass pass, const ConvProblem& p,
                         const ConvOperands& operands, const PlanTarget& target) {
  std::vector<tuning::Candidate> candidates;
  auto add = [&](ConvRoute route) {
    const char* name = route.algorithm->name;
    candidates.push_back({name, [&, route = std::move(route)] { run_conv(route, queue, operands); }});
  };
  const ConvAlgorithm* const first = guess.algorithm;
  add(std::move(guess));
  const Algorithms algorithms = conv_algorithms(pass);
  for (const ConvAlgorithm& algorithm : algorithms.first(algorithms.size() - 1))
    if (&algorithm != first)
      if (ConvRoute route = conv_route(algorithm, p, target); !route.plan.refusal) add(std::move(route));
  return tuning::measure(queue, key, candidates, result_of(pass, p, operands));
}

// The algorithm named by TORCH_OCL_CONV, or "auto".
const std::string& forced_algorithm() {
  static const std::string name = [] {
    std::string value = environment::get("TORCH_OCL_CONV").value_or("auto");
    std::vector<std::string_view> names{"auto"};
    for (const ConvPass pass : {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weight})
      for (const ConvAlgorithm& algorithm : conv_algorithms(pass))
        if (std::find(names.begin(), names.end(), algorithm.name) == names.end()) names.push_back(algorithm.name);
    if (std::find(names.begin(), names.end(), value) != names.end()) return value;
    std::string list;
    for (const std::string_view each : names) list.append(list.empty() ? "" : ", ").append(each);
    environment::reject("TORCH_OCL_CONV", value, list, "auto is used");
    return std::string("auto");
  }();
  return name;
}

ConvRoute choose(Queue& queue, ConvPass pass, const ConvProblem& problem, const ConvOperands& operands) {
  const std::string& forced = forced_algorithm();
  const Device& device = queue.device();
  const PlanTarget target(device);
  const Algorithms algorithms = conv_algorithms(pass);
  if (forced != "auto")
    if (auto found = find(algorithms, forced, problem, target)) return std::move(*found);
  if (!tuning::active(device)) return choose_conv(pass, problem, target);
  const tuning::Problem key = tuning_problem(pass, problem, device);
  std::string_view name = tuning::choice(device, key);
  auto known = name.empty() ? std::nullopt : find(algorithms, name, problem, target);
  if (known) return std::move(*known);
  ConvRoute guess = choose_conv(pass, problem, target);
  if (!tuning::measuring()) return guess;
  known = find(algorithms, measure(queue, key, guess, pass, problem, operands, target), problem, target);
  return known ? std::move(*known) : std::move(guess);
}

// What a plan is made from.
struct ConvKey {
  const Device* device;
  ConvPass pass;
  WinogradMode winograd;
  bool tf32;
  ConvProblem problem;

  bool operator==(const ConvKey&) const = default;
  size_t hash() const {
    const ConvProblem& p = problem;
    return Hasher()
        .add(reinterpret_cast<uintptr_t>(device) ^ static_cast<uint64_t>(p.dtype) << 56 ^
             static_cast<uint64_t>(pass) << 54 ^ static_cast<uint64_t>(winograd) << 52 ^ uint64_t{tf32} << 51 ^
             uint64_t{p.channels_last} << 50 ^ uint64_t{p.filters_last} << 49)
        .add({p.batch, p.in_channels, p.out_channels})
        .add(static_cast<uint64_t>(p.groups))
        .add(p.input)
        .add(p.output)
        .add(p.kernel)
        .add(p.stride)
        .add(p.padding)
        .add(p.dilation)
        .value();
  }
};

// A problem that was checked: nothing to do, or the convolution with a part of its taps, or a route.
struct Prepared {
  bool empty = false;
  ConvProblem problem;  // as it is computed: orders that make no difference are the first ones
  std::optional<LivePart> live;
  ConvRoute route;
};

Prepared prepare(Queue& queue, ConvPass pass, const ConvProblem& problem, const ConvOperands& operands) {
  check_conv(problem);
  require_dtype(queue.device(), problem.dtype, "convolution");
  const int64_t results = pass == ConvPass::forward         ? problem.y_numel()
                          : pass == ConvPass::backward_data ? problem.x_numel()
                                                            : problem.w_numel();
  Prepared prepared;
  prepared.empty = results == 0;
  if (prepared.empty) return prepared;
  ConvProblem p = problem;
  p.channels_last = problem.channels_last && order_matters(problem);
  p.filters_last = problem.filters_last && p.in_per_group() > 1 && p.taps() > 1;
  prepared.problem = p = taps_as_channels(p);
  // Nothing to sum over: only the reference is required to handle it.
  if (p.x_numel() == 0 || p.y_numel() == 0 || p.w_numel() == 0)
    prepared.route = conv_route(conv_algorithms(pass).back(), p, PlanTarget(queue.device()));
  else if (prepared.live = live_part(p); !prepared.live)
    prepared.route = choose(queue, pass, p, operands);
  return prepared;
}

PlanTable<ConvKey, Prepared>& plans() {
  static auto* table = new PlanTable<ConvKey, Prepared>;
  return *table;
}

}  // namespace

std::span<const ConvAlgorithm> conv_algorithms(ConvPass pass) {
  static const std::vector<ConvAlgorithm> lists[] = {collect(ConvPass::forward), collect(ConvPass::backward_data),
                                                     collect(ConvPass::backward_weight)};
  return lists[static_cast<int>(pass)];
}

ConvRoute conv_route(const ConvAlgorithm& algorithm, const ConvProblem& problem, const PlanTarget& target) {
  ConvRoute route{&algorithm, problem, problem, {}};
  if (const char* unbuilt = target.unbuilt(&algorithm, problem.dtype)) {
    route.plan.refusal = unbuilt;
    return route;
  }
  route.inner.filters_last = problem.filters_last && algorithm.takes_filters_last(problem);
  route.plan = algorithm.plan(route.inner, target);
  if (!route.plan.refusal || !problem.channels_last) return route;
  route.inner = channels_first(route.inner);
  route.plan = algorithm.plan(route.inner, target);
  return route;
}

size_t workspace_of(const ConvRoute& route) {
  const ConvProblem& p = route.problem;
  int64_t copied = route.problem.filters_last != route.inner.filters_last ? p.w_numel() : 0;
  if (p.channels_last != route.inner.channels_last) copied += p.x_numel() + p.y_numel();
  return route.plan.workspace + static_cast<size_t>(copied) * size_of(p.dtype);
}

void run_conv(const ConvRoute& route, Queue& queue, const ConvOperands& operands) {
  if (route.problem.channels_last == route.inner.channels_last)
    run_with_ordered_filters(route, queue, operands);
  else
    run_reordered(route, queue, operands);
  if (route.algorithm->pass == ConvPass::forward && route.problem.limited() && !route.plan.limits)
    limit_results(queue, route.problem, operands.y);
}

ConvRoute choose_conv(ConvPass pass, const ConvProblem& problem, const PlanTarget& target) {
  const Algorithms algorithms = conv_algorithms(pass);
  for (const ConvAlgorithm& algorithm : algorithms) {
    ConvRoute route = conv_route(algorithm, problem, target);
    if (!route.plan.refusal && !route.plan.declines) return route;
  }
  return conv_route(algorithms.back(), problem, target);
}

void convolution(Queue& queue, ConvPass pass, const ConvProblem& problem, const ConvOperands& operands) {
  const Device& device = queue.device();
  const ConvKey key{&device, pass, winograd_mode(), rounds_to_tf32(problem.dtype, device), problem};
  for (;;) {
    const auto known = plans().get(key, [&] { return prepare(queue, pass, problem, operands); });
    if (known->empty) return;
    if (known->live) return run_live_part(queue, pass, *known->live, known->problem, operands);
    const ConvAlgorithm* algorithm = known->route.algorithm;
    try {
      return run_conv(known->route, queue, operands);
    } catch (const BuildError& error) {
      if (algorithm == &conv_algorithms(pass).back()) throw;
      build_failures::add(algorithm, algorithm->name, problem.dtype, device, error.what());
    }
  }
}

}  // namespace ocl::ops

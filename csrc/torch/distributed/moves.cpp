// Collectives that move tensors. Gloo moves bytes, so that every dtype can travel.
#include "torch/distributed/process_group.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

namespace ocl::distributed {

using c10d::OpType;

namespace {

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* name) {
  TORCH_CHECK_VALUE(tensors.size() == 1, name, ": requires a single-element tensor list");
  return tensors[0];
}

// One tensor per rank, each like `other`.
void check_list(const std::vector<at::Tensor>& list, const at::Tensor& other, int size, const char* name) {
  TORCH_CHECK_VALUE(list.size() == static_cast<size_t>(size), name, ": Incorrect input list size ", list.size(),
                    ". Input list size should be ", size, ", same as size of the process group.");
  for (size_t i = 0; i < list.size(); ++i) {
    TORCH_CHECK_VALUE(list[i].scalar_type() == other.scalar_type(), name, ": invalid tensor type at index ", i,
                      " (expected ", other.scalar_type(), ", got ", list[i].scalar_type(), ")");
    TORCH_CHECK_VALUE(list[i].sizes() == other.sizes(), name, ": invalid tensor size at index ", i, " (expected ",
                      other.sizes(), ", got ", list[i].sizes(), ")");
  }
}

// Rows of dimension 0 for each rank: slices of a tensor, which has been checked.
std::vector<at::Tensor> slices(const at::Tensor& tensor, const std::vector<int64_t>& splits, int ranks) {
  std::vector<at::Tensor> result;
  int64_t begin = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t rows = splits.empty() ? tensor.size(0) / ranks : splits[rank];
    result.push_back(tensor.narrow(0, begin, rows));
    begin += rows;
  }
  return result;
}

std::vector<int64_t> sizes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.numel());
  return result;
}

}  // namespace

ProcessGroup::Work ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only(tensors, "broadcast");
  const Use use = getRank() == options.rootRank ? Use::read : Use::write;
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors host = use == Use::read ? hosts.input_bytes({tensor}) : hosts.output_bytes({tensor});
    return gloo->broadcast(host, options);
  };
  return issue(OpType::BROADCAST, "ocl:broadcast", {}, {tensor}, std::move(steps));
}

Collective::Ptr ProcessGroup::gather_all(const Tensors& outputs, const at::Tensor& input,
                                         const c10d::AllgatherOptions& options) {
  check_list(outputs, input, getSize(), "allgather");
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors in = hosts.input_bytes({input});
    TensorLists out{hosts.output_bytes(outputs)};
    return gloo->allgather(out, in, options);
  };
  return issue(OpType::ALLGATHER, "ocl:all_gather", {input}, outputs, std::move(steps));
}

Collective::Ptr ProcessGroup::gather_flat(const at::Tensor& output, const at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "output tensor must have the same type as input tensor");
  TORCH_CHECK(output.numel() == input.numel() * getSize(),
              "output tensor size must be equal to world_size times input tensor size");
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    at::Tensor in = hosts.input_bytes({input})[0], out = hosts.output_bytes({output})[0];
    return gloo->_allgather_base(out, in, options);
  };
  return issue(OpType::_ALLGATHER_BASE, "ocl:all_gather", {input}, {output}, std::move(steps));
}

ProcessGroup::Work ProcessGroup::allgather(TensorLists& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs, "allgather");
  TORCH_CHECK_VALUE(outputs.size() == 1, "allgather: requires a single-element output list");
  return gather_all(outputs[0], input, options);
}

ProcessGroup::Work ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) {
  return gather_flat(output, input, options);
}

// outputs[rank][i] is inputs[i] of that rank.
ProcessGroup::Work ProcessGroup::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(getSize()) && !inputs.empty(),
                    "allgather_coalesced: requires one output list per rank, and inputs");
  std::vector<Collective::Ptr> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const Tensors& list : outputs) {
      TORCH_CHECK_VALUE(list.size() == inputs.size(), "invalid output size: (expected length ", inputs.size(), ", got ",
                        list.size(), ")");
      of_ranks.push_back(list[i]);
    }
    parts.push_back(gather_all(of_ranks, inputs[i], options));
  }
  return together(std::move(parts));
}

ProcessGroup::Work ProcessGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size() && !inputs.empty(), "requires input and output lists of one size");
  std::vector<Collective::Ptr> parts;
  parts.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) parts.push_back(gather_flat(outputs[i], inputs[i], options));
  return together(std::move(parts));
}

ProcessGroup::Work ProcessGroup::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const at::Tensor input = only(inputs, "gather");
  const bool root = getRank() == options.rootRank;
  TORCH_CHECK_VALUE(outputs.size() == (root ? 1 : 0), root ? "gather: requires a single-element output list"
                                                           : "gather: requires empty output on non-root");
  if (root) check_list(outputs[0], input, getSize(), "gather");
  const Tensors list = root ? outputs[0] : Tensors{};
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors in = hosts.input_bytes({input});
    TensorLists out;
    if (root) out.push_back(hosts.output_bytes(list));
    return gloo->gather(out, in, options);
  };
  return issue(OpType::GATHER, "ocl:gather", {input}, list, std::move(steps));
}

ProcessGroup::Work ProcessGroup::scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) {
  const at::Tensor output = only(outputs, "scatter");
  const bool root = getRank() == options.rootRank;
  TORCH_CHECK_VALUE(inputs.size() == (root ? 1 : 0), root ? "scatter: requires a single-element input list"
                                                          : "scatter: requires empty input on non-root");
  if (root) check_list(inputs[0], output, getSize(), "scatter");
  const Tensors list = root ? inputs[0] : Tensors{};
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors out = hosts.output_bytes({output});
    TensorLists in;
    if (root) in.push_back(hosts.input_bytes(list));
    return gloo->scatter(out, in, options);
  };
  return issue(OpType::SCATTER, "ocl:scatter", list, {output}, std::move(steps));
}

Collective::Ptr ProcessGroup::exchange(const Tensors& outputs, const Tensors& inputs,
                                       const c10d::AllToAllOptions& options) {
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    const Tensors in = hosts.input_bytes(inputs), out = hosts.output_bytes(outputs);
    std::vector<int64_t> to = sizes_of(in), from = sizes_of(out);
    int64_t total = 0;
    for (int64_t bytes : from) total += bytes;
    at::Tensor sent = at::cat(in), received = at::empty({total}, sent.options());
    hosts.buffers = {sent, received};
    return gloo->alltoall_base(received, sent, from, to, options);
  };
  steps.finish = [](HostTensors& hosts) {
    int64_t begin = 0;
    for (const HostTensor& output : hosts.outputs) {
      const at::Tensor bytes = output.bytes();
      bytes.copy_(hosts.buffers[1].narrow(0, begin, bytes.numel()));
      begin += bytes.numel();
    }
  };
  return issue(OpType::ALLTOALL, "ocl:all_to_all", inputs, outputs, std::move(steps));
}

ProcessGroup::Work ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "output tensor and input tensor must have the same type");
  TORCH_CHECK(output.dim() > 0 && input.dim() > 0, "all_to_all_single needs tensors of one dimension or more");
  c10d::checkSplitSizes(input_splits, input, getSize());
  c10d::checkSplitSizes(output_splits, output, getSize());
  return exchange(slices(output, output_splits, getSize()), slices(input, input_splits, getSize()), options);
}

ProcessGroup::Work ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const auto size = static_cast<size_t>(getSize());
  TORCH_CHECK_VALUE(inputs.size() == size && outputs.size() == size,
                    "alltoall: requires one input and one output per rank");
  return exchange(outputs, inputs, options);
}

namespace {

// Gloo looks into its table of connections with whatever it is given.
void check_peer(const char* name, int rank, int size) {
  TORCH_CHECK_VALUE(rank >= 0 && rank < size, "ProcessGroupOcl::", name, ": invalid rank: ", rank);
}

}  // namespace

ProcessGroup::Work ProcessGroup::send(Tensors& tensors, int to, int tag) {
  check_peer("send", to, getSize());
  const at::Tensor tensor = only(tensors, "send");
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors host = hosts.input_bytes({tensor});
    return gloo->send(host, to, tag);
  };
  return issue(OpType::SEND, "ocl:send", {tensor}, {}, std::move(steps));
}

ProcessGroup::Work ProcessGroup::recv(Tensors& tensors, int from, int tag) {
  check_peer("recv", from, getSize());
  const at::Tensor tensor = only(tensors, "recv");
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors host = hosts.output_bytes({tensor});
    return gloo->recv(host, from, tag);
  };
  return issue(OpType::RECV, "ocl:recv", {}, {tensor}, std::move(steps));
}

ProcessGroup::Work ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor tensor = only(tensors, "recvAnysource");
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors host = hosts.output_bytes({tensor});
    return gloo->recvAnysource(host, tag);
  };
  return issue(OpType::RECVANYSOURCE, "ocl:recv", {}, {tensor}, std::move(steps));
}

}  // namespace ocl::distributed

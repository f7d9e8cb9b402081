// Collectives that compute.
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

}  // namespace

Collective::Ptr ProcessGroup::reduce_all(const at::Tensor& tensor, const c10d::AllreduceOptions& options) {
  const Reduction reduction(options.reduceOp, tensor.scalar_type(), getSize());
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors host{hosts.output(tensor, Use::update, reduction.type())};
    reduction.before(host[0]);
    auto here = options;
    here.reduceOp = reduction.gloo();
    return gloo->allreduce(host, here);
  };
  steps.finish = [=](HostTensors& hosts) { reduction.after(hosts.outputs[0].host()); };
  return issue(OpType::ALLREDUCE, "ocl:all_reduce", {}, {tensor}, std::move(steps));
}

ProcessGroup::Work ProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return reduce_all(only(tensors, "allreduce"), options);
}

ProcessGroup::Work ProcessGroup::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "ProcessGroupOcl::allreduce_coalesced: requires non-empty tensor list");
  std::vector<Collective::Ptr> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(reduce_all(tensor, options));
  return together(std::move(parts));
}

ProcessGroup::Work ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor tensor = only(tensors, "reduce");
  const Reduction reduction(options.reduceOp, tensor.scalar_type(), getSize());
  const bool root = getRank() == options.rootRank;
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    // Gloo uses the memory of every rank; only the root's is a result.
    at::Tensor host =
        root ? hosts.output(tensor, Use::update, reduction.type()) : hosts.input(tensor, reduction.type()).clone();
    hosts.buffers.push_back(host);
    reduction.before(host);
    Tensors list{host};
    auto here = options;
    here.reduceOp = reduction.gloo();
    return gloo->reduce(list, here);
  };
  if (root) steps.finish = [=](HostTensors& hosts) { reduction.after(hosts.outputs[0].host()); };
  return issue(OpType::REDUCE, "ocl:reduce", {}, {tensor}, std::move(steps));
}

// Gloo reduces everything on every rank and drops the rest: twice the bytes, and its work has no future. Instead every
// rank gets the parts that it has to reduce.
Collective::Ptr ProcessGroup::reduce_parts(const at::Tensor& output, const Tensors& parts,
                                           const c10d::ReduceScatterOptions& options) {
  const Reduction reduction(options.reduceOp, output.scalar_type(), getSize());
  const int size = getSize();
  const int64_t count = output.numel();
  Steps steps;
  steps.start = [=, gloo = gloo_](HostTensors& hosts) {
    Tensors flat;
    for (const at::Tensor& part : parts) flat.push_back(hosts.input(part, reduction.type()).view({-1}));
    at::Tensor sent = flat.size() == 1 ? flat[0] : at::cat(flat);
    if (reduction.scales()) {
      sent = sent.clone();
      reduction.before(sent);
    }
    at::Tensor received = at::empty({size, count}, sent.options());
    hosts.buffers = {sent, received};
    std::vector<int64_t> from, to;
    const int64_t bytes = sent.element_size();
    for (int rank = 0; rank < size; ++rank) {
      from.push_back(count * bytes);
      to.push_back((flat.size() == 1 ? count : flat[rank].numel()) * bytes);
    }
    at::Tensor in = bytes_of(sent), out = bytes_of(received);
    c10d::AllToAllOptions here;
    here.timeout = options.timeout;
    return gloo->alltoall_base(out, in, from, to, here);
  };
  steps.finish = [=](HostTensors& hosts) {
    const at::Tensor result = hosts.outputs.emplace_back(output, Use::write, reduction.type()).host();
    result.view({-1}).copy_(reduction.of_parts(hosts.buffers[1]));
  };
  return issue(OpType::REDUCE_SCATTER, "ocl:reduce_scatter", parts, {output}, std::move(steps));
}

ProcessGroup::Work ProcessGroup::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                const c10d::ReduceScatterOptions& options) {
  const at::Tensor output = only(outputs, "reduce_scatter");
  TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(getSize()),
                    "reduce_scatter: requires one tensor per rank");
  for (const at::Tensor& part : inputs[0])
    TORCH_CHECK_VALUE(part.scalar_type() == output.scalar_type(), "invalid tensor type");
  TORCH_CHECK_VALUE(inputs[0][getRank()].numel() == output.numel(), "invalid tensor size");
  return reduce_parts(output, inputs[0], options);
}

ProcessGroup::Work ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "input tensor must be the same type as the output tensor.");
  TORCH_CHECK(output.numel() * getSize() == input.numel(),
              "input tensor must be the same size as output size times world size");
  return reduce_parts(output, {input}, options);
}

ProcessGroup::Work ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                 const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size() && !outputs.empty(), "requires input and output lists of one size");
  std::vector<Collective::Ptr> parts;
  for (size_t i = 0; i < outputs.size(); ++i) {
    TORCH_CHECK(outputs[i].numel() * getSize() == inputs[i].numel(),
                "input tensor must be the same size as output size times world size");
    parts.push_back(reduce_parts(outputs[i], {inputs[i]}, options));
  }
  return together(std::move(parts));
}

}  // namespace ocl::distributed

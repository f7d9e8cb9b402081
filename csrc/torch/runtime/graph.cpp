#include "torch/runtime/graph.h"

#include "opencl/memory/caching_allocator.h"
#include "torch/runtime/device.h"

#include <c10/util/Exception.h>

#if __has_include(<ATen/core/GraphImplInterface.h>)
#include <ATen/core/GraphImplInterface.h>

#include <fstream>
#endif

namespace ocl::runtime {

CommandList& Graph::captured(const char* function) const {
  TORCH_CHECK(list_ && !list_->capturing(), "Called OclGraph.", function, " without a preceding successful capture.");
  return *list_;
}

void Graph::capture_begin(uint64_t pool) {
  TORCH_CHECK(!list_, "This OclGraph instance already owns a captured graph. Call reset() before a new capture.");
  Queue& queue = current_queue();
  TORCH_CHECK(!queue.capture(), "The current stream captures a graph already.");
  synchronize(queue);
  auto list = std::make_shared<CommandList>(queue.device(), pool ? pool : CachingAllocator::new_pool());
  list->begin(queue);
  list_ = std::move(list);
}

void Graph::capture_end() {
  TORCH_CHECK(list_ && list_->capturing(), "Called OclGraph.capture_end without a capture in progress.");
  try {
    list_->end();
  } catch (...) {
    list_.reset();
    throw;
  }
}

void Graph::replay() {
  CommandList& list = captured("replay");
  list.replay(current_queue(static_cast<c10::DeviceIndex>(list.device().index())));
}

// Work of the last replay needs nothing of the list: commands have their arguments, and memory stays reserved until the
// device was synchronised.
void Graph::reset() {
  if (list_ && list_->capturing()) {
    try {
      list_->end();
    } catch (const std::exception&) {
      list_.reset();  // it is gone in any case
    }
  }
  list_.reset();
}

uint64_t Graph::pool() const {
  TORCH_CHECK(list_, "Called OclGraph.pool() without a preceding successful capture.");
  return list_->pool();
}

size_t Graph::size() const { return captured("size").size(); }
std::string Graph::text() const { return captured("debug_dump").text(); }

bool is_capturing() { return current_queue().capture() != nullptr; }

#if __has_include(<ATen/core/GraphImplInterface.h>)
namespace {

// torch.accelerator.Graph. Pools have one number, the second one of PyTorch's.
class GraphImpl final : public at::GraphImplInterface {
 public:
  explicit GraphImpl(const at::GraphImplArgs&) {}
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override { graph_.capture_begin(pool.second); }
  void capture_end() override { graph_.capture_end(); }
  void instantiate() override { graph_.size(); }  // nothing is left to do; the error of a graph without a capture
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  c10::MempoolId_t pool() const override { return {0, graph_.pool()}; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override { std::ofstream(path) << graph_.text(); }

 private:
  Graph graph_;
};

}  // namespace

using at::GraphImplRegistry;
using at::RegistererGraphImplRegistry;
C10_REGISTER_CLASS(GraphImplRegistry, OCL, GraphImpl)
#endif

}  // namespace ocl::runtime

// Graphs: commands of a stream that are captured once and replayed, with CUDA's names and errors. What is recorded, and
// how: opencl/command_list.h.
#pragma once

#include "opencl/command_list.h"

#include <cstdint>
#include <memory>
#include <string>

namespace ocl::runtime {

class Graph {
 public:
  // Captures the current stream of the current device. `pool`: where memory comes from; 0: from a pool of its own.
  // Errors: c10::Error when the graph holds a capture already, or the stream captures.
  void capture_begin(uint64_t pool);
  // Errors: c10::Error when the capture failed; the graph can be captured again.
  void capture_end();
  // Issues what was captured to the current stream of its device. Errors: c10::Error without a capture.
  void replay();
  // Forgets the capture and releases its memory, once tensors in it are gone too.
  void reset();
  uint64_t pool() const;
  size_t size() const;  // commands
  std::string text() const;

 private:
  CommandList& captured(const char* function) const;

  std::shared_ptr<CommandList> list_;
};

// Whether the thread's current stream captures.
bool is_capturing();

}  // namespace ocl::runtime

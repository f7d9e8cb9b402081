#include "opencl/program/compiler_process.h"

#include <cstdint>

namespace ocl {

const std::string& CompilerProcess::path() {
  static const std::string path = os::file_beside_library("torch_ocl_compiler");
  return path;
}

void CompilerProcess::ask(int device, const std::string& file, const std::string& key, const std::string& options,
                          const std::string& source) {
  std::string message;
  for (const std::string& text : {std::to_string(device), file, key, options, source}) {
    const auto length = static_cast<uint32_t>(text.size());
    message.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  }
  alive_ = process_.started() && process_.write(message.data(), message.size());
}

void CompilerProcess::build(const ProgramRequest& request) {
  ask(request.device->index(), request.file, request.key, request.options, request.source);
}

void CompilerProcess::test_functions(int device) { ask(device, test_request, "", "", ""); }

bool CompilerProcess::answer() {
  char answer = 0;
  alive_ = alive_ && process_.read(&answer, 1);
  return alive_ && answer == 1;
}

}  // namespace ocl

#include "opencl/program/compiler_process.h"

#include "opencl/program/program_cache.h"

#include <cstdint>
#include <filesystem>

namespace ocl {

const std::string& CompilerProcess::path() {
  static const std::string path = [] {
    std::string beside = os::file_beside_library("torch_ocl_compiler");
    std::error_code ignored;
    const bool installed = beside.empty() && std::filesystem::exists(OCL_COMPILER_INSTALLED, ignored);
    return installed ? OCL_COMPILER_INSTALLED : beside;
  }();
  return path;
}

void CompilerProcess::ask(const char* what, const ProgramRequest& request) {
  std::string message;
  const std::string device = std::to_string(request.device->index());
  for (const std::string& text :
       {std::string(what), device, request.file, request.key, request.options, request.source}) {
    const auto length = static_cast<uint32_t>(text.size());
    message.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  }
  alive_ = alive_ && process_.started() && process_.write(message.data(), message.size());
}

void CompilerProcess::ask(const Device& device, const std::string& question) {
  ProgramRequest request;
  request.device = const_cast<Device*>(&device);
  request.file = question;
  request.key = program_cache::key(device, "", "");
  ask("ask", request);
}

CompilerProcess::Answer CompilerProcess::answer() {
  char answer = 0;
  alive_ = alive_ && process_.read(&answer, 1);
  if (!alive_) return Answer::gone;
  return answer == 'y' ? Answer::yes : answer == 'n' ? Answer::no : Answer::unable;
}

}  // namespace ocl

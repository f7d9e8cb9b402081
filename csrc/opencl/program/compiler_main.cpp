// A process that compiles programs into the disk cache for another one (opencl/program/build_ahead.h), which has
// started it and talks to it through standard input and output. A request is five texts, each behind its length as a
// uint32_t: device index, file, key, options, source. The answer is one byte, 1 when the program is in the cache. It
// also tries what might not survive it: whether kernels can be called as functions (cpu/kernel_function.h).
#include "opencl/program/compiler_process.h"
#include "opencl/device.h"
#include "base/os.h"
#include "base/warning.h"
#include "opencl/program/program_build.h"
#include "opencl/program/program_cache.h"

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

using namespace ocl;

static bool read_text(std::string& text) {
  uint32_t length;
  if (std::fread(&length, sizeof length, 1, stdin) != 1) return false;
  text.resize(length);
  return std::fread(text.data(), 1, length, stdin) == length;
}

static bool build(const std::string& device_index, ProgramRequest request) {
  request.device = &Device::get(std::stoi(device_index));
  // the same driver, as the other process sees it
  if (program_cache::key(*request.device, request.options, request.source) != request.key) return false;
  const os::FileLock turn = program_cache::build_turn(request.key);
  return program_cache::read(request.key) || program_cache::write_binary(compile_program(request), request.key);
}

// The device tests that itself where it is told so.
static bool test_functions(const std::string& device_index) {
  os::set_environment("TORCH_OCL_CALL_KERNELS", "only");
  return Device::get(std::stoi(device_index)).calls_kernels();
}

int main() {
  set_warning_handler([](const std::string&) {});  // the other process has the same environment and warns
  os::set_environment("TORCH_OCL_CALL_KERNELS", "0");
  os::end_with_parent();
  ProgramRequest request;
  std::string device_index;
  while (read_text(device_index) && read_text(request.file) && read_text(request.key) && read_text(request.options) &&
         read_text(request.source)) {
    char answer = 0;
    try {
      answer =
          request.file == CompilerProcess::test_request ? test_functions(device_index) : build(device_index, request);
    } catch (const std::exception&) {  // the other process compiles it again and reports
    }
    if (std::fwrite(&answer, 1, 1, stdout) != 1 || std::fflush(stdout) != 0) break;
  }
  std::fflush(stdout);
  os::end_process(0);  // without the destructors of drivers
}

// The compiler process (compiler_process.h). A request is six texts, each behind its length as a uint32_t: what to do,
// device index, file or question, key, options, source. The answer is one byte: y, n, or ? where this process has not
// got that device of that driver.
#include "base/environment.h"
#include "base/os.h"
#include "base/warning.h"
#include "opencl/capabilities/probes.h"
#include "opencl/device.h"
#include "opencl/program/compiler_process.h"
#include "opencl/program/program_build.h"
#include "opencl/program/program_cache.h"

#include <cstdint>
#include <exception>
#include <string>

using namespace ocl;

namespace {

// Seconds
constexpr double idle = 10;  // without a request, after which the process ends
constexpr double forever = 1e9;

struct Request : ProgramRequest {
  std::string what, device_index;

  bool read(os::ParentChannel& parent) {
    for (std::string* text : {&what, &device_index, &file, &key, &options, &source}) {
      uint32_t length;
      if (!parent.read(&length, sizeof length, idle)) return false;
      text->resize(length);
      if (!parent.read(text->data(), length, idle)) return false;
    }
    return true;
  }
};

// Asking for the binary has a driver that compiles lazily compile all of the program.
bool compile(const Request& request) {
  const os::FileLock turn = program_cache::build_turn(request.key);
  if (program_cache::enabled() && program_cache::read(request.key)) return true;
  const std::vector<unsigned char> binary = program_cache::binary_of(compile_program(request));
  const bool kept = program_cache::enabled() && program_cache::write(request.key, binary);
  return request.what == "build" ? kept : true;
}

char answer_to(Request& request) {
  // The device tests functions itself where it is told so.
  const bool functions = request.file == CompilerProcess::functions_question;
  if (functions) os::set_environment("TORCH_OCL_CALL_KERNELS", "only");
  request.device = &Device::get(std::stoi(request.device_index));
  if (program_cache::key(*request.device, request.options, request.source) != request.key) return '?';
  if (request.what != "ask") return compile(request) ? 'y' : 'n';
  const bool yes = functions ? request.device->calls_kernels() : request.device->probes().passed_here(request.file);
  program_cache::write_postponed(forever);  // as at the end of any other process: drivers have failed there
  return yes ? 'y' : 'n';
}

}  // namespace

int main() {
  os::ParentChannel parent;
  CompilerProcess::enter();
  set_warning_handler([](const std::string&) {});  // the other process has the same environment and warns
  os::set_environment("TORCH_OCL_CALL_KERNELS", "0");
  if (!environment::flag("TORCH_OCL_BUILD_LOG")) os::silence_output();  // deaths are expected here
  bool functions = false;
  for (Request request; request.read(parent);) {
    functions |= request.file == CompilerProcess::functions_question;
    const char none = request.what == "ask" ? '?' : 'n';
    char answer = none;
    try {
      answer = answer_to(request);
    } catch (const std::exception&) {  // the other process compiles it again and reports
      answer = none;
    }
    if (!parent.write(&answer, 1)) break;
  }
  if (!functions) os::end_process(0);  // without the destructors of drivers
}

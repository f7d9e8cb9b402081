#include "opencl/program/program_build.h"

#include "base/environment.h"
#include "base/injected_faults.h"
#include "base/os.h"
#include "opencl/error.h"
#include "opencl/program/attempt.h"
#include "opencl/program/program_cache.h"
#include "opencl/program/ptx_target.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string_view>

namespace ocl {

std::string dump_source(const std::string& folder, const ProgramRequest& request) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::string name = request.file.substr(0, request.file.rfind('.'));
  std::replace(name.begin(), name.end(), '/', '-');
  const std::string path = folder + "/" + name + "-" + request.key.substr(0, 12) + ".cl";
  const bool written = static_cast<bool>(std::ofstream(path, std::ios::binary) << request.source << std::flush);
  if (!written && environment::get("TORCH_OCL_DUMP_SOURCE") == folder)
    environment::reject("TORCH_OCL_DUMP_SOURCE", folder, "a folder that can be written", "no source is written");
  return path;
}

static std::string build_log(cl_program program, cl_device_id id) {
  size_t bytes = 0;
  clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, 0);
  if (bytes) clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  while (!log.empty() && (log.back() == 0 || log.back() == '\n')) log.pop_back();
  return log;
}

cl_program load_program(const ProgramRequest& request) {
  auto binary = program_cache::read(request.key);
  if (!binary) return nullptr;
  const unsigned char* data = binary->data();
  const size_t bytes = binary->size();
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  cl_device_id id = request.device->id();
  cl_program program = clCreateProgramWithBinary(request.device->context(), 1, &id, &bytes, &data, &status, &code);
  if (code == CL_SUCCESS && status == CL_SUCCESS &&
      clBuildProgram(program, 1, &id, request.options.c_str(), nullptr, nullptr) == CL_SUCCESS)
    return program;
  if (program) clReleaseProgram(program);
  program_cache::remove(request.key);
  return nullptr;
}

// One line per process, after 2 s: the user should know what the first step waits for.
void announce_wait(const Device& device, double seconds) {
  static std::mutex mutex;
  static double total = 0;
  std::lock_guard lock(mutex);
  const bool was_short = total <= 2;
  total += seconds;
  if (!was_short || total <= 2) return;
  const std::string kept = program_cache::enabled() && program_cache::state().writable
                               ? "once: they are kept in " + program_cache::folder()
                               : "in every process: the disk cache is off or not writable";
  std::fprintf(stderr, "torch_ocl: compiling kernels for %s, %s\n", device.capabilities().name.c_str(), kept.c_str());
}

// "A=1 B=x" of the lines that define them.
static std::string in_one_line(const std::string& defines) {
  constexpr std::string_view define = "#define ";
  std::string line;
  for (size_t at = 0; at < defines.size();) {
    const size_t end = std::min(defines.find('\n', at), defines.size());
    std::string_view text(defines.data() + at, end - at);
    at = end + 1;
    if (!text.starts_with(define)) continue;
    text.remove_prefix(define.size());
    const size_t space = text.find(' ');
    line.append(line.empty() ? "" : " ").append(text.substr(0, space));
    if (space != text.npos) line.append("=").append(text.substr(space + 1));
  }
  return line;
}

std::string description(const ProgramRequest& request) {
  return request.file + ", kernel " + request.kernel + ", defines: " + in_one_line(request.defines);
}

cl_program compile_program(const ProgramRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const Device& device = *request.device;
  injected_faults::compiling(request.file);
  const char* text = request.source.c_str();
  cl_int code = CL_SUCCESS;
  cl_program program = clCreateProgramWithSource(device.context(), 1, &text, nullptr, &code);
  check(code, "clCreateProgramWithSource");
  cl_device_id id = device.id();
  code = clBuildProgram(program, 1, &id, request.options.c_str(), nullptr, nullptr);
  if (const std::string target = ptx_target(request.source); code == CL_SUCCESS && !target.empty())
    code = compile_for(program, device, request.options, target);
  if (code != CL_SUCCESS) {
    const std::string log = build_log(program, id);
    const std::string path =
        dump_source(environment::get("TORCH_OCL_DUMP_SOURCE").value_or(program_cache::folder() + "/failed"), request);
    clReleaseProgram(program);
    throw BuildError(code, request.file + " did not compile on " + device.capabilities().name + " (" +
                               device.capabilities().platform_name + "): " + error_name(code) +
                               "\nprogram: " + description(request) + "\nsource: " + path + "\n" + log);
  }
  if (environment::flag("TORCH_OCL_BUILD_LOG")) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::fprintf(stderr, "torch_ocl: built %s %s in %.2f s\n", request.file.c_str(), request.key.substr(0, 12).c_str(),
                 seconds);
    if (const std::string log = build_log(program, id); !log.empty()) std::fprintf(stderr, "%s\n", log.c_str());
  }
  return program;
}

cl_program load_or_compile_program(const ProgramRequest& request) {
  if (request.device->guarded()) attempt_program(request);
  const os::FileLock turn = program_cache::build_turn(request.key);
  if (cl_program program = program_cache::enabled() ? load_program(request) : nullptr) return program;
  cl_program program = compile_program(request);
  if (program_cache::enabled()) program_cache::keep(*request.device, program, request.key);
  return program;
}

}  // namespace ocl

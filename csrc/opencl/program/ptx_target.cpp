#include "opencl/program/ptx_target.h"

#include "opencl/device.h"

#include <utility>
#include <vector>

namespace ocl {

std::string ptx_target(std::string_view source) {
  constexpr std::string_view wish = "#define PTX_TARGET ";
  const size_t at = source.find(wish);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = source.substr(at + wish.size());
  return std::string(rest.substr(0, rest.find_first_of(" \n")));
}

std::string retargeted(std::string_view ptx, std::string_view target) {
  constexpr std::string_view directive = ".target ";
  const size_t at = ptx.find(directive);
  if (at == std::string_view::npos) return {};
  const size_t end = ptx.find_first_of(", \n", at + directive.size());
  if (end == std::string_view::npos) return {};
  std::string text(ptx.substr(0, at + directive.size()));
  text.append(target);
  const std::string comment = "//" + std::string(target) + ": ";
  for (size_t from = end;;) {
    const size_t next = ptx.find(comment, from);
    text.append(ptx.substr(from, next - from));
    if (next == std::string_view::npos) return text;
    from = next + comment.size();
  }
}

cl_int compile_for(cl_program& program, const Device& device, const std::string& options, const std::string& target) {
  size_t bytes = 0;
  if (cl_int code = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr);
      code != CL_SUCCESS)
    return code;
  std::vector<unsigned char> binary(bytes);
  unsigned char* data = binary.data();
  if (cl_int code = clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof data, &data, nullptr); code != CL_SUCCESS)
    return code;
  const std::string text = retargeted({reinterpret_cast<const char*>(binary.data()), binary.size()}, target);
  if (text.empty()) return CL_INVALID_BINARY;
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const size_t length = text.size();
  cl_device_id id = device.id();
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  cl_program better = clCreateProgramWithBinary(device.context(), 1, &id, &length, &begin, &status, &code);
  if (code == CL_SUCCESS) code = status;
  if (code == CL_SUCCESS) code = clBuildProgram(better, 1, &id, options.c_str(), nullptr, nullptr);
  cl_program unused = code == CL_SUCCESS ? std::exchange(program, better) : better;
  if (unused) clReleaseProgram(unused);
  return code;
}

}  // namespace ocl

#include "base/injected_faults.h"

#include "base/environment.h"

#include <cstdlib>
#include <string>

namespace ocl::injected_faults {

bool has(std::string_view item) {
  static const std::string list = environment::get("TORCH_OCL_INJECT").value_or("");
  for (std::string_view rest = list; !rest.empty();) {
    if (rest.substr(0, rest.find(',')) == item) return true;
    rest = rest.find(',') == std::string_view::npos ? std::string_view() : rest.substr(rest.find(',') + 1);
  }
  return false;
}

void compiling(std::string_view file) {
  const std::string name(file);
  if (has("exit:" + name)) std::exit(8);
  if (has("abort:" + name)) std::abort();
  // A real one: a raised signal is one that a handler of the driver may return from.
  if (has("segv:" + name)) *reinterpret_cast<volatile int*>(sizeof(int)) = 0;
}

}  // namespace ocl::injected_faults

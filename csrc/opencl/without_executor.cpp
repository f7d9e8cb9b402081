// What a build without csrc/cpu has in its place (-DTORCH_OCL_CPU_EXECUTOR=OFF): no executor for any driver, so that
// every device executes its commands itself.
#include "opencl/part_executor.h"
#include "opencl/program/ahead.h"
#include "opencl/program/entry_points.h"

namespace ocl {

unsigned executor_workers() { return 0; }
void limit_executor_workers(unsigned) {}
bool in_main_thread() { return false; }
std::unique_ptr<Executor> make_executor(HostDriver, cl_context, cl_device_id) { return nullptr; }
std::unique_ptr<Executor> make_part_executor(HostDriver, cl_context, cl_device_id, const cpu_parts::Part&, bool,
                                             unsigned) {
  return nullptr;
}
void share_openmp_threads(const OpenMpThreads&) {}
std::string function_head(FunctionForm, const KernelDeclaration&) { return {}; }

std::string ahead::program(const Device&, const std::string&) { return {}; }
std::string ahead::text(const Device&, const std::string&) { return {}; }
bool ahead::call(Kernel&, const std::string&) { return false; }
std::string ahead::state() { return "no: the library is built without the CPU executor"; }

}  // namespace ocl

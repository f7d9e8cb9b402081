#include "cpu/kernel_function.h"

#include "base/environment.h"
#include "base/injected_faults.h"
#include "base/os.h"
#include "cpu/cpu_executor.h"
#include "opencl/capabilities/probes.h"
#include "opencl/launch.h"
#include "opencl/program/compiler_process.h"
#include "opencl/program/entry_points.h"
#include "opencl/program/kept_answers.h"
#include "opencl/program/program_cache.h"
#include "params/selftest.h"

#include <cstddef>
#include <cstdlib>
#include <string>

namespace ocl {

namespace kernel_function {

namespace {

// In the function of a group get_group_id and the like mean what its parameter `host_group` says: it hides a constant
// of that name which stands for the launch of a kernel.
constexpr const char* functions = R"(
typedef struct { size_t at[3], count[3], memory; } HostGroup;
__constant int host_group = 0;
size_t __attribute__((overloadable, always_inline)) host_at(int launch, uint d) { return host_group_id(d); }
size_t __attribute__((overloadable, always_inline)) host_at(HostGroup group, uint d) { return group.at[d]; }
size_t __attribute__((overloadable, always_inline)) host_count(int launch, uint d) { return host_num_groups(d); }
size_t __attribute__((overloadable, always_inline)) host_count(HostGroup group, uint d) { return group.count[d]; }
size_t __attribute__((overloadable, always_inline)) host_item(int launch, uint d) { return host_global_id(d); }
size_t __attribute__((overloadable, always_inline)) host_item(HostGroup group, uint d) { return group.at[d]; }
size_t __attribute__((overloadable, always_inline)) host_items(int launch, uint d) { return host_global_size(d); }
size_t __attribute__((overloadable, always_inline)) host_items(HostGroup group, uint d) { return group.count[d]; }
#undef get_group_id
#undef get_num_groups
#undef get_global_id
#undef get_global_size
#define get_group_id(d) host_at(host_group, d)
#define get_num_groups(d) host_count(host_group, d)
#define get_global_id(d) host_item(host_group, d)
#define get_global_size(d) host_items(host_group, d)
size_t __attribute__((always_inline)) host_take(HostGroup* group, size_t bytes) {
  const size_t begin = group->memory;
  group->memory = begin + (bytes + 63) / 64 * 64;
  return begin;
}
#define CALLABLE_MEMORY(T, bytes) ((__local T*)host_take(&host_group, bytes))
typedef struct { ulong begin[3], end[3], count[3], memory; } HostBox;
)";

}  // namespace

const char* source() { return functions; }

// A callable kernel's code is a function of a group, NAME_group. NAME_box calls it for the groups of a box.
static std::string box_function(const KernelDeclaration& kernel, const std::string& parameters_before) {
  using Kind = KernelParameter::Kind;
  const auto value = [](const std::string& type, const std::string& name) {
    return "  " + type + " " + name + " = *(" + type + " __private*)next; next += (sizeof(" + name +
           ") + 15) / 16 * 16;\n";
  };
  const std::string values = kernel.each(false, [&](const KernelParameter& p) {
    if (p.kind == Kind::tensor)
      return value("__global " + p.type + "*", p.name + "_buffer") + value("ulong", p.name + "_offset");
    return p.kind == Kind::local ? value("ulong", p.name + "_bytes") : value(p.type, p.name);
  });
  const std::string names = kernel.each(true, [](const KernelParameter& p) {
    if (p.kind == Kind::tensor) return p.name + "_buffer, " + p.name + "_offset";
    return p.kind == Kind::local ? p.name + "_bytes" : p.name;
  });
  return " void " + kernel.name + "_box(" + parameters_before + R"(ulong arguments, ulong box_address) {
  __private char* next = (__private char*)arguments;
  __private const HostBox* box = (__private const HostBox*)box_address;
)" + values +
         R"(  HostGroup group = {{0, 0, 0}, {box->count[0], box->count[1], box->count[2]}, box->memory};
  for (group.at[2] = box->begin[2]; group.at[2] < box->end[2]; group.at[2]++)
    for (group.at[1] = box->begin[1]; group.at[1] < box->end[1]; group.at[1]++)
      for (group.at[0] = box->begin[0]; group.at[0] < box->end[0]; group.at[0]++)
        )" +
         kernel.name + "_group(group" + (kernel.list.empty() ? "" : ", ") + names + ");\n}\n";
}

// NAME itself is no kernel here, because no driver enqueues it. PoCL compiles each kernel alone, with the functions
// that it calls, and eliminates the rest of the program as dead code: NAME_address contains a call of NAME_box that is
// never made, which keeps NAME_box in its code. The instruction that asks for the address stands in a function of its
// own: PoCL 6.0 takes one in the kernel itself for an allocation that it has made, and aborts when it is asked for the
// binary.
static std::string address_by_instruction(const std::string& name) {
#if defined(__aarch64__)
  const std::string load = "adrp %0, " + name + "_box\\n\\tadd %0, %0, :lo12:" + name + "_box";
#else
  const std::string load = "leaq " + name + "_box(%%rip), %0";
#endif
  return "static __attribute__((noinline)) ulong " + name + "_place(void) {\n  ulong address;\n  __asm__(\"" + load +
         "\" : \"=r\"(address));\n  return address;\n}\n"
         "__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void " +
         name + "_address(__global ulong* out) {\n  const ulong address = " + name + "_place();\n  if (*out == 0) " +
         name + "_box(0, 0, 0);\n  *out = address;\n}\n";
}

static std::string address_by_block(const std::string& name) {
  return "__kernel __attribute__((reqd_work_group_size(1, 1, 1), intel_vec_len_hint(1))) void " + name +
         "_address(__global ulong* out) {\n  void (^block)(ulong, ulong) = ^(ulong arguments, ulong box) { " + name +
         "_box(arguments, box); };\n  *out = ((__private ulong*)(void*)block)[1];\n}\n";
}

}  // namespace kernel_function

// AHEAD_NAME is a definition of the program's (cpu/ahead.cpp).
static std::string symbol(const std::string& name) {
  return "void " + name + "_box(ulong, ulong, ulong) __asm__(AHEAD_NAME(\"" + name + "\"));\n";
}

std::string function_head(FunctionForm form, const KernelDeclaration& kernel) {
  using namespace kernel_function;
  const std::string parameters = kernel.each(true, [](const KernelParameter& p) {
    return p.kind == KernelParameter::Kind::local ? "ulong " + p.name + "_bytes" : p.declaration();
  });
  const std::string group = "static inline void " + kernel.name + "_group(HostGroup host_group" +
                            (kernel.list.empty() ? "" : ", ") + parameters + ")";
  const bool block = form == FunctionForm::block;
  const std::string box = block ? "static inline" + box_function(kernel, "")
                                : "__attribute__((noinline, used))" + box_function(kernel, "ulong unused, ");
  if (form == FunctionForm::symbol) return group + ";\n" + symbol(kernel.name) + box + group;
  return group + ";\n" + box + (block ? address_by_block(kernel.name) : address_by_instruction(kernel.name)) + group;
}

namespace kernel_function {

namespace {

bool works_here(Device& device) {
  constexpr int64_t n = 6 * 5 * 4 * 16;
  alignas(64) float y[n + 16] = {};
  struct Call {
    KernelFunction function;
    const void* arguments;
  };
  try {
    Kernel& kernel = get_kernel(device, "selftest/function.cpu.cl", "add_groups", Defines(), BuildTime::at_once);
    Queue queue(device, -1);
    const KernelFunction function = find(kernel, queue.handle());
    clReleaseCommandQueue(queue.handle());
    Arguments arguments(kernel);
    arguments.add_address(y);
    arguments.add(uint64_t{64});
    arguments.add(n);
    arguments.add(params::Pair{3, {0, 0, 0, 0, 0, 0, 0.5f}});
    arguments.add(0.25f);
    arguments.add(LocalMemory{sizeof(float) * 16});
    PackedArguments packed;
    Call call{function, packed.pack(arguments.data(), arguments.bytes())};
    const auto body = [](void* pointer) {
      const Call& c = *static_cast<Call*>(pointer);
      const KernelBox whole{{0, 0, 0}, {6, 5, 4}, {6, 5, 4}, thread_memory(1 << 16)};
      c.function(nullptr, c.arguments, &whole);
    };
    if (!function || !call.arguments || !os::survives(body, &call)) return false;
  } catch (const std::exception&) {
    return false;
  }
  if (injected_faults::has("unclean_exit")) std::atexit([] { std::abort(); });
  for (int64_t i = 0; i < n + 16; ++i) {
    const int64_t group = (i - 16) / 16;
    if (y[i] != (i < 16 ? 0.0f : static_cast<float>(group) * 3 + 0.5f + 0.25f * static_cast<float>(i % 16)))
      return false;
  }
  return true;
}

}  // namespace

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__linux__)
static constexpr bool possible = true;
#else
static constexpr bool possible = false;
#endif

// A driver that does not take such a program may end the process, then or when the process ends, so another process
// tries it first and is watched until its end.
Test::Test(Device& device, HostDriver driver) {
  const std::string wish = environment::word("TORCH_OCL_CALL_KERNELS", "");
  here_ = possible && (wish == "1" || wish == "only");
  if (!possible || !wish.empty()) return;
  const std::string kernels = write_entry_points(kernel_source("selftest/function.cpu.cl"), driver).source;
  key_ = program_cache::key(device, "kernels as functions", source() + kernels);
  if (const auto answer = kept_answers::get(key_)) {
    here_ = *answer == "yes";
  } else if (CompilerProcess::exists()) {
    ask_elsewhere(device);
    device.probes().ask_ahead(elsewhere_);
    elsewhere_->last();
  }
}

void Test::ask_elsewhere(Device& device) {
  elsewhere_ = std::make_shared<CompilerProcess>();
  elsewhere_->ask(device, CompilerProcess::functions_question);
}

Test::~Test() = default;

bool Test::passed(Device& device) {
  if (elsewhere_) {
    bool calls = elsewhere_->answer() == CompilerProcess::Answer::yes;
    device.probes().read_ahead(elsewhere_->alive());
    if (calls && !elsewhere_->alive()) {  // a probe has ended it
      ask_elsewhere(device);
      elsewhere_->last();
      calls = elsewhere_->answer() == CompilerProcess::Answer::yes;
    }
    const os::ChildProcess::End end = elsewhere_->end();
    here_ = calls && end == os::ChildProcess::End::clean;
    if (end != os::ChildProcess::End::stopped)
      kept_answers::keep(key_, here_ ? "yes" : "no: " + elsewhere_->end_text());
    elsewhere_.reset();
  }
  return here_ && works_here(device);
}

namespace {

// Commands may still run on a thread behind the end of its thread_local objects: the main thread's at the exit of the
// process. These two have no destructor, so that what ThreadMemoryEnd stores is seen then.
thread_local void* thread_pages = nullptr;
thread_local size_t thread_bytes = 0;

void release_thread_memory() {
  if (thread_pages) os::unmap(thread_pages, thread_bytes);
  thread_pages = nullptr, thread_bytes = 0;
}

struct ThreadMemoryEnd {
  ~ThreadMemoryEnd() { release_thread_memory(); }
};

}  // namespace

void* thread_memory(size_t bytes) {
  if (thread_bytes < bytes) [[unlikely]] {
    thread_local ThreadMemoryEnd end;
    release_thread_memory();
    thread_pages = os::map_pages(bytes);
    thread_bytes = thread_pages ? bytes : 0;
  }
  return thread_pages;
}

// Intel's runtime keeps the code of a program as long as the program, which lives for ever. PoCL keeps that of a few
// kernels, in libraries or, from version 7.2 on, in memory of a JIT compiler, where nothing can hold it.
static bool stays_loaded(const Device& device, const void* code) {
  if (injected_faults::has("unpinned")) return false;
  return device.executor()->driver() == HostDriver::local_thread || os::keep_loaded(code);
}

KernelFunction find(Kernel& kernel, cl_command_queue queue) {
  const cl_kernel asks = kernel.address_kernel();
  if (!asks) return nullptr;
  uint64_t address = 1;
  check(clSetKernelArgSVMPointer(asks, 0, &address), "clSetKernelArgSVMPointer");
  constexpr size_t one[3] = {1, 1, 1};
  check(clEnqueueNDRangeKernel(queue, asks, 3, nullptr, one, one, 0, nullptr, nullptr), "clEnqueueNDRangeKernel");
  check(clFinish(queue), "clFinish");
  if (address <= 1) return nullptr;
  if (!stays_loaded(kernel.device(), reinterpret_cast<const void*>(address))) return nullptr;
  return reinterpret_cast<KernelFunction>(address);
}

const void* PackedArguments::pack(const void* data, size_t bytes) {
  size_t used = Arguments::pack(data, bytes, fixed_, sizeof fixed_);
  if (used <= sizeof fixed_) return fixed_;
  more_.resize(used / sizeof(std::max_align_t) + 1);
  Arguments::pack(data, bytes, more_.data(), used);
  return more_.data();
}

}  // namespace kernel_function

}  // namespace ocl

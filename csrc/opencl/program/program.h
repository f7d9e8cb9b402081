// Programs: OpenCL C from kernels_cl/ (embedded, or read from TORCH_OCL_KERNEL_DIR), specialised by typed name/value
// pairs that are printed as #define lines ahead of the source, built once per process and kept on disk
// (program_cache.h).
#pragma once

#include "opencl/executor.h"
#include "opencl/queue.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ocl {

// Ordered name/value pairs; equal sets in equal order are the same program.
class Defines {
 public:
  Defines& add(const char* name, int64_t value);
  Defines& add(const char* name, int value) { return add(name, static_cast<int64_t>(value)); }
  Defines& add(const char* name, bool value) { return add(name, static_cast<int64_t>(value)); }
  Defines& add(const char* name, std::string_view tokens);
  Defines& add(const char* name, const char* tokens) { return add(name, std::string_view(tokens)); }
  // Source text placed after the defines and before the file (operator tables insert their expression this way).
  Defines& text(std::string_view source);
  const std::string& str() const { return text_; }

 private:
  std::string text_;
};

class BuildAhead;

// A cl_kernel with the lock that setting its arguments needs.
// Where kernels are called as functions (Device::calls_kernels) there may be a second one, which tells the function's
// address, or only that.
class Kernel {
 public:
  Kernel(Device& device, cl_program program, std::string name);
  Kernel(Device& device, std::shared_ptr<BuildAhead> program, std::string name);
  Device& device() const { return device_; }
  // Waits for the program to be built where necessary. For those who hold the mutex. Errors: BuildError.
  cl_kernel handle() { return handle_ ? handle_ : build(); }
  // The kernel that tells the address of the function, null where it has none. As handle().
  cl_kernel address_kernel();
  // Whether nobody would wait long: its program has been compiled. Stays false when another process failed to compile
  // it.
  bool ready();
  const std::string& name() const { return name_; }
  std::mutex& mutex() { return mutex_; }
  // Of the device's executor; null where it has none.
  Executor::KernelState* executor_state() const { return executor_state_.get(); }
  std::vector<char>& last_arguments() { return last_arguments_; }  // kept by Arguments::set

 private:
  void create(cl_program program);
  cl_kernel build();

  Device& device_;
  cl_kernel handle_ = nullptr, address_kernel_ = nullptr;
  std::shared_ptr<BuildAhead> program_;
  std::string name_;
  std::unique_ptr<Executor::KernelState> executor_state_;
  std::mutex mutex_;
  std::atomic<bool> ready_{false};
  std::vector<char> last_arguments_;
};

// The kernel `name` of kernels_cl/`file`.cl specialised by `defines`. Slow (text look-up, possibly a build): launch
// sites keep the reference, which stays valid for ever. Errors: BuildError with the log and the path of the dumped
// source; where programs are compiled ahead (build_ahead.h), Queue::finish() raises it after the first launch, unless
// they are to be built at once. Beside: another process compiles it, when it has nothing more urgent to do, while the
// launches that the kernel would replace go on until it is ready().
enum class BuildTime { ahead, at_once, beside };
Kernel& get_kernel(Device& device, const char* file, const char* name, const Defines& defines,
                   BuildTime when = BuildTime::ahead);

// The same for a whole program given as text, which may include files of kernels_cl.
Kernel& get_kernel_from_source(Device& device, const char* name, const std::string& source);

// The kernel `name` of a program with several kernels, given as text likewise; `program` names it in logs.
Kernel& get_kernel_of_program(Device& device, const char* program, const char* name, const std::string& source,
                              BuildTime when = BuildTime::ahead);

// The text of kernels_cl/`file` (with its ending) after TORCH_OCL_KERNEL_DIR was considered, includes not expanded.
std::string kernel_source(const std::string& file);

// The same with them, as a program has it behind its definitions.
std::string expanded_source(const std::string& file);

// Number of programs compiled by the driver / taken from the disk cache in this process; tests use it to show that new
// shapes build nothing.
struct BuildCounts {
  uint64_t built = 0, loaded = 0;
};
BuildCounts build_counts();

// One static object per launch site: finds its kernel by (device, 64-bit variant) without text. The variant is packed
// by the site from dtypes and layout class and must determine the defines.
class KernelSite {
 public:
  constexpr KernelSite(const char* file, const char* name, BuildTime when = BuildTime::ahead)
      : file_(file), name_(name), when_(when) {}

  template <class MakeDefines>
  Kernel& get(Device& device, uint64_t variant, MakeDefines&& make_defines) {
    if (Kernel* kernel = find(device.index(), variant)) [[likely]]
      return *kernel;
    Defines defines = make_defines();
    return insert(device, variant, defines);
  }
  Kernel& get(Device& device) {
    return get(device, 0, [] { return Defines(); });
  }
  // The kernel, or nullptr before the first get().
  Kernel* find(int device, uint64_t variant) const;

 private:
  struct Entry {
    int device;
    uint64_t variant;
    Kernel* kernel;
  };
  struct Table;
  Kernel& insert(Device& device, uint64_t variant, const Defines& defines);

  const char* file_;
  const char* name_;
  BuildTime when_;
  std::atomic<Table*> table_{nullptr};  // immutable, replaced on insertion, old ones leaked (few and small)
};

}  // namespace ocl

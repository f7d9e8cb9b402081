// The interface to what runs a device's commands on threads of this process.
//
// Some CPU drivers execute every command on the thread that enqueues it. They have no threads to wake, which is what a
// small kernel mostly costs, but somebody has to bring the threads. csrc/cpu does that, with a thread pool and a
// command queue of its own. This layer and the operators know it by this header only: opencl/ includes nothing of cpu/.
#pragma once

#include <CL/cl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace ocl {

class Arguments;
class Device;
class Kernel;
class Queue;
struct Range;

// Drivers that execute a command on the thread that enqueues it.
enum class HostDriver {
  none,          // the device has threads of its own
  basic,         // PoCL's drivers "basic" and "cpu-minimal"
  local_thread,  // queues with CL_QUEUE_THREAD_LOCAL_EXEC_ENABLE_INTEL (cl_intel_exec_by_local_thread)
};

// A trivially copyable function object without its type, called as command(data). Refers to the object.
struct HostCommand {
  template <class Command>
  HostCommand(const Command& command)
      : run([](void* object, const void* data) { (*static_cast<const Command*>(object))(data); }),
        object(&command),
        bytes(sizeof(Command)) {
    static_assert(std::is_trivially_copyable_v<Command> && alignof(Command) <= alignof(std::max_align_t));
  }

  void (*run)(void* object, const void* data);
  const void* object;
  size_t bytes;
};

// How a command is fused with those behind it in the command queue that have the same `run`.
struct Fusion {
  static constexpr size_t most = 12;  // commands in one call of run()

  // Runs the first of `count` (at least two) commands, given the `data` of each, and as many of those behind it as can
  // be fused with it. Returns how many it ran; 0: none, the first is to be run by itself. Must not throw.
  size_t (*run)(const void* const* data, size_t count) = nullptr;
  const void* data = nullptr;  // copied
  size_t bytes = 0;
};

// Commands of all executors of this process run one after another, in the order of issue.
class Executor {
 public:
  // Numbers commands; when a command has ended, all with a lower number have. 0: no command.
  using Ticket = uint64_t;
  // What an executor keeps with a kernel.
  struct KernelState {
    virtual ~KernelState() = default;
  };

  virtual ~Executor() = default;

  virtual HostDriver driver() const = 0;
  // Threads that work on one launch: the device's compute units.
  virtual unsigned workers() const = 0;
  // Properties that every cl_command_queue of the device needs.
  virtual cl_command_queue_properties queue_properties() const = 0;
  // OpenCL C that every program of the device begins with.
  virtual const char* source() const = 0;
  // What comes behind it in programs whose kernels are called as functions (Device::calls_kernels).
  virtual const char* function_source() const = 0;
  // Whether the driver may be asked for a program's binary only after the last launch.
  virtual bool binaries_at_end() const = 0;
  virtual std::unique_ptr<KernelState> new_kernel_state() const = 0;

  // Start-up self-test: whether kernels of this device can be called as functions, without the driver. Where another
  // process has to try it first, it begins to; passed() waits for its answer, then tries it here.
  struct FunctionTest {
    virtual ~FunctionTest() = default;
    virtual bool passed(Device& device) = 0;  // Device::calls_kernels is true meanwhile
  };
  virtual std::unique_ptr<FunctionTest> start_function_test(Device& device) const = 0;

  // Issues a launch. Errors: ocl::Error for ranges that do not fit; those of the arguments and of the execution come
  // with the queue's next finish().
  virtual void issue(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
                     const Fusion& fusion) = 0;
  // Executes a launch that does the work of `fused` commands of `queue`; it has ended on return. For Fusion::run only.
  // All errors come with the queue's next finish().
  virtual void run_fused(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
                         size_t fused) = 0;

  // Copies (the ranges may overlap) and fills with whole patterns; they have ended on return. Inside of commands only.
  virtual void copy(void* destination, const void* source, size_t bytes) = 0;
  virtual void fill(void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) = 0;
  // Expected nanoseconds of one thread's time for a copy; 0: unknown.
  virtual float copy_time(size_t bytes) const = 0;

  // Issues a command with a copy of `data`. `expected`: nanoseconds of one thread's time; 0: unknown. The command must
  // not throw and must not call this.
  virtual Ticket submit(float expected, const HostCommand& command, const void* data = nullptr, size_t bytes = 0,
                        const Fusion& fusion = {}) = 0;
  // Whether the command has ended, for callers that ask until it has: everything issued is begun.
  virtual bool complete(Ticket ticket) = 0;
  // Begins what has been issued.
  virtual void start() = 0;
  virtual void wait(Ticket ticket) = 0;
};

// ---- defined in csrc/cpu

// Worker threads that an executor would have; 0: the user wants none.
unsigned executor_workers();
// The most workers that launches from now on may use; 0: all. Ignored where TORCH_OCL_HOST_THREADS says how many.
void limit_executor_workers(unsigned workers);
// Whether the calling thread is the process's first.
bool in_main_thread();
std::unique_ptr<Executor> make_executor(HostDriver driver, cl_context context, cl_device_id device);

// The thread pool of an OpenMP library in the same process, which may run launches of the main thread (why and when:
// cpu/openmp_sharing.h).
struct OpenMpThreads {
  // Calls body(context) on `threads` threads at the same time, one of them the caller, and returns when all have ended.
  // May return false and do nothing.
  bool (*parallel)(void (*body)(void*), void* context, unsigned threads) = nullptr;
  // Whether its threads have been busy-waiting since the last call. Null: unknown.
  bool (*spinning)() = nullptr;
};
void share_openmp_threads(const OpenMpThreads& threads);

}  // namespace ocl

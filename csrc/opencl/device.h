// Devices: found once per process, ordered GPUs first, chosen by TORCH_OCL_VISIBLE_DEVICES. Devices, contexts and
// queues are never destroyed: at process exit their threads may already be gone.
#pragma once

#include "opencl/capabilities/capabilities.h"
#include "opencl/error.h"
#include "opencl/executor.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ocl {

class CachingAllocator;
class Probes;
class Queue;

class Device {
 public:
  // Number of visible devices; 0 when there is no platform or every driver is broken. Never throws.
  static int count() noexcept;
  // Errors: InvalidDevice when index is not in [0, count()).
  static Device& get(int index);
  // One line per platform or device that could not be used, for the doctor.
  static const std::vector<std::string>& problems();

  int index() const { return index_; }
  cl_platform_id platform() const { return platform_; }
  cl_device_id id() const { return id_; }
  cl_context context() const { return context_; }
  const Capabilities& capabilities() const { return capabilities_; }
  // Whether kernels of the CPU style run: by the type of the device, or forced by TORCH_OCL_KERNEL_STYLE=cpu|gpu (read
  // once).
  bool cpu_style() const { return style_ == KernelStyle::cpu; }

  // Runs the commands on threads of this process, for drivers that execute them on the enqueuing thread. Null for all
  // others.
  Executor* executor() const { return executor_.get(); }

  // Kernels of devices with executor() are given the addresses of segments instead of their cl_mem (start-up
  // self-test): a driver shared by several threads keeps a record of who uses a cl_mem, under locks.
  bool takes_addresses() const { return takes_addresses_; }

  // Abilities that are found out by trying them.
  Probes& probes() const { return *probes_; }

  // Whether the driver's compiler may end the process that it works in: it is none of those that are known to be
  // survived, or a probe has ended a process. Programs that are not in the disk cache are then compiled where they are
  // asked for, after another process has survived that (program/attempt.h).
  bool guarded() const { return guarded_.load(std::memory_order_relaxed); }
  // From now on, and in the processes to come; `why` is kept for whoever looks for it.
  void guard(const std::string& why);
  // Is told of every device that becomes guarded; may not ask for devices.
  static void on_guard(void (*observer)());

  // Whether kernels may be called as functions, without the driver (start-up self-test).
  bool calls_kernels() const { return calls_kernels_; }

  CachingAllocator& allocator() const { return *allocator_; }
  Queue& default_queue() const { return *default_queue_; }
  // A new in-order queue with profiling; lives until the process ends.
  Queue& new_queue();
  // The queue of this id (0: default). Errors: std::out_of_range.
  Queue& queue(int id);
  // One of a fixed pool of queues in turn, created at first use; ids 1 to pool_size.
  Queue& pooled_queue();
  static constexpr int pool_size = 32;
  // Waits for every queue of the device.
  void synchronize();

  // `familiar`: the driver's compiler is known to be survived.
  Device(int index, cl_platform_id platform, cl_device_id id, HostDriver host_driver, bool familiar);
  ~Device();
  Device(const Device&) = delete;

 private:
  friend class SimulatedCapabilities;  // replaces capabilities_ in tests

  void open_elsewhere(bool familiar);

  int index_;
  cl_platform_id platform_;
  cl_device_id id_;
  cl_context context_ = nullptr;
  Capabilities capabilities_;
  KernelStyle style_ = KernelStyle::cpu;
  bool takes_addresses_ = false, calls_kernels_ = false;
  std::unique_ptr<Probes> probes_;
  std::atomic<bool> guarded_{false};
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<CachingAllocator> allocator_;
  Queue* default_queue_ = nullptr;
  std::mutex queues_mutex_;
  std::vector<std::unique_ptr<Queue>> queues_;
  int next_pooled_ = 0;
};

}  // namespace ocl

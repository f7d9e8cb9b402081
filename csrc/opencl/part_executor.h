// Executors of devices that are parts of a CPU (base/cpu_parts.h).
#pragma once

#include "base/cpu_parts.h"
#include "opencl/executor.h"

namespace ocl {

class Device;

// The part of a CPU that the device is; null: it is a whole device.
const cpu_parts::Part* part_of(const Device& device);

// Tickets tell in which order their commands run: the executors of all whole devices share order 0, each part has its
// own.
inline Executor::Ticket first_ticket(unsigned order) { return Executor::Ticket{order} << 48; }
inline unsigned order_of(Executor::Ticket ticket) { return static_cast<unsigned>(ticket >> 48); }
unsigned order_of(const Device& device);

// An executor (defined in csrc/cpu) with a pool and a command queue of its own: its commands are in order among
// themselves, not with those of other executors. `only_part`: the threads that use it are bound to the part's
// processors, so the pool counts one of them among its workers. Otherwise they help while they wait, wherever they run,
// beside as many threads as the part has.
std::unique_ptr<Executor> make_part_executor(HostDriver driver, cl_context context, cl_device_id device,
                                             const cpu_parts::Part& part, bool only_part, unsigned order);

}  // namespace ocl

#include "opencl/launch.h"

#include "base/environment.h"
#include "opencl/command_list.h"

#include <algorithm>
#include <cstring>
#include <deque>

namespace ocl {

// Of a thread's objects, which are few at a time: a launch may have to issue another one first
// (Queue::flush_deferred).
struct Arguments::Records {
  std::deque<Record> all;
  size_t taken = 0;

  static Records& here() {
    thread_local Records records;
    return records;
  }
  Record& take() {
    if (taken == all.size()) all.emplace_back();
    Record& record = all[taken++];
    record.used = record.local_bytes = 0;
    record.random = no_random;
    return record;
  }
};

namespace {

Location locate_for(const Kernel& kernel, unsigned index, const void* address) {
  if (!address) return {};
  const Location location = find_location(address);
  if (location.device == &kernel.device()) [[likely]]
    return location;
  // The texts users know from CUDA; the argument says which tensor when an operator did not check by itself.
  const std::string here = "ocl:" + std::to_string(kernel.device().index());
  const std::string there = location.device ? "ocl:" + std::to_string(location.device->index()) : "cpu";
  throw InvalidArgument("Expected all tensors to be on the same device, but found at least two devices, " + here +
                        " and " + there + "! (argument " + std::to_string(index) + " of the OpenCL kernel " +
                        kernel.name() + ")");
}

}  // namespace

Arguments::Arguments(Kernel& kernel) : kernel_(kernel), record_(Records::here().take()) {}

Arguments::Arguments(Kernel& kernel, const void* data, size_t bytes) : Arguments(kernel) {
  if (record_.memory.size() < bytes) record_.memory.resize(2 * bytes);
  std::memcpy(record_.memory.data(), data, bytes);
  record_.used = bytes;
}

uint64_t Arguments::random_seed() const {
  uint64_t seed;
  std::memcpy(&seed, record_.memory.data() + record_.random + sizeof(Head), sizeof seed);
  return seed;
}

// The counter in the record is relative to the first one.
void Arguments::replace_random(size_t at, uint64_t seed, uint64_t first) {
  char* record = record_.memory.data() + at + sizeof(Head);
  std::memcpy(record, &seed, sizeof seed);
  record += sizeof seed + sizeof(Head);
  uint64_t counter;
  std::memcpy(&counter, record, sizeof counter);
  counter += first;
  std::memcpy(record, &counter, sizeof counter);
}

Arguments::~Arguments() { --Records::here().taken; }

void Arguments::add(Kind kind, const void* value, size_t bytes) {
  const Head head{kind, static_cast<uint32_t>(bytes)};
  const size_t length = sizeof head + (value ? bytes : 0);
  if (record_.memory.size() < record_.used + length) [[unlikely]]
    record_.memory.resize(2 * (record_.used + length) + 256);
  char* to = record_.memory.data() + record_.used;
  std::memcpy(to, &head, sizeof head);
  if (value) std::memcpy(to + sizeof head, value, bytes);
  record_.used += length;
  ++count_;
}

void Arguments::add_memory(const void* address) {
  const Location location = locate_for(kernel_, count_, address);
  if (location.buffer && kernel_.device().takes_addresses())
    add_address(static_cast<const char*>(address) - location.offset);
  else
    add(location.buffer ? Kind::buffer : Kind::nothing, location.buffer ? &location.buffer : nullptr, sizeof(cl_mem));
  add(address ? static_cast<cl_ulong>(location.offset) : absent);
}

// Kernels that are called as functions have no driver that would refuse it.
void Arguments::add_local(size_t bytes) {
  record_.local_bytes += bytes;
  const uint64_t most = kernel_.device().capabilities().local_memory;
  if (record_.local_bytes > most) [[unlikely]] {
    const std::string amounts =
        std::to_string(record_.local_bytes) + " bytes of local memory, of " + std::to_string(most);
    throw_error(CL_OUT_OF_RESOURCES, ("clEnqueueNDRangeKernel(" + kernel_.name() + "): " + amounts).c_str());
  }
  add(Kind::local, nullptr, bytes);
}

// An absent tensor's buffer: the launch's first one, which is there as long as the launch is. Compilers may move loads
// ahead of the test whether the tensor is there (HAS in common/memory.clh).
Arguments::Value Arguments::stand_in(const char* record, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const Value value = value_at(record + at);
    if (value.head.kind == Kind::buffer || value.head.kind == Kind::address) return value;
    at += value.length;
  }
  return {{Kind::nothing, sizeof(cl_mem)}, nullptr, 0};
}

Arguments::Value Arguments::value_at(const char* record) {
  Value result{{}, record + sizeof(Head), sizeof(Head)};
  std::memcpy(&result.head, record, sizeof(Head));
  if (result.head.kind < Kind::nothing) result.length += result.head.bytes;
  return result;
}

cl_int Arguments::set(Kernel& kernel, const void* data, size_t bytes, unsigned& index) {
  std::vector<char>& last = kernel.last_arguments();
  if (last.size() != bytes) last.assign(bytes, static_cast<char>(0xff));  // a kind that does not exist
  const char* record = static_cast<const char*>(data);
  index = 0;
  for (size_t at = 0, length; at < bytes; at += length, ++index) {
    auto [head, value, record_length] = value_at(record + at);
    length = record_length;
    // The handle of another buffer may be that of one which is no more.
    if (head.kind != Kind::buffer && head.kind != Kind::nothing &&
        std::memcmp(last.data() + at, record + at, length) == 0)
      continue;
    if (head.kind == Kind::nothing) {
      const Value other = stand_in(record, bytes);
      head = other.head, value = other.value;
    }
    cl_int code;
    if (head.kind == Kind::address) {
      const void* address;
      std::memcpy(&address, value, sizeof address);
      code = clSetKernelArgSVMPointer(kernel.handle(), index, address);
    } else {
      code = clSetKernelArg(kernel.handle(), index, head.bytes, head.kind >= Kind::nothing ? nullptr : value);
    }
    if (code != CL_SUCCESS) [[unlikely]] {
      last.clear();
      return code;
    }
    std::memcpy(last.data() + at, record + at, length);
  }
  return CL_SUCCESS;
}

size_t Arguments::pack(const void* data, size_t bytes, void* to, size_t room) {
  const char* record = static_cast<const char*>(data);
  size_t used = 0;
  for (size_t at = 0; at < bytes;) {
    Head head;
    std::memcpy(&head, record + at, sizeof head);
    at += sizeof head;
    const uint64_t local_bytes = head.kind == Kind::local ? head.bytes : 0;
    const void* from = head.kind >= Kind::nothing ? static_cast<const void*>(&local_bytes) : record + at;
    const size_t length = head.kind >= Kind::nothing ? sizeof local_bytes : head.bytes;
    if (used + length <= room) std::memcpy(static_cast<char*>(to) + used, from, length);
    used += (length + slot - 1) / slot * slot;
    if (head.kind < Kind::nothing) at += length;
  }
  return used;
}

std::string argument_text(const Kernel& kernel, unsigned index) {
  return "clSetKernelArg(" + kernel.name() + ", " + std::to_string(index) + ")";
}

void enqueue(Queue& queue, const Arguments& arguments, const Range& global, const Range& local, const Fusion& fusion) {
  static const bool synchronous = environment::flag("TORCH_OCL_SYNC");
  queue.flush_deferred();
  if (CommandList* list = queue.capture()) [[unlikely]]
    return list->add_launch(queue, arguments, global, local, fusion);
  Kernel& kernel = arguments.kernel();
  if (Executor* executor = queue.device().executor()) {
    executor->issue(queue, arguments, global, local, fusion);
  } else {
    queue.command({Command::Kind::kernel, kernel.name().c_str()}, "clEnqueueNDRangeKernel", [&](cl_event* event) {
      std::lock_guard lock(kernel.mutex());
      if (local.size[0] * local.size[1] * local.size[2] > queue.device().capabilities().max_work_group) [[unlikely]]
        return cl_int{CL_INVALID_WORK_GROUP_SIZE};
      unsigned index;
      if (const cl_int code = Arguments::set(kernel, arguments.data(), arguments.bytes(), index); code != CL_SUCCESS)
          [[unlikely]]
        throw_error(code, argument_text(kernel, index).c_str());
      return clEnqueueNDRangeKernel(queue.handle(), kernel.handle(), global.dimensions, nullptr, global.size.data(),
                                    local.dimensions ? local.size.data() : nullptr, 0, nullptr, event);
    });
  }
  if (synchronous) queue.finish();
}

}  // namespace ocl

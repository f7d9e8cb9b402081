// torch.profiler's ProfilerActivity.PrivateUse1: every kernel, copy and fill with the times of its OpenCL event, linked
// to the operator that issued it. While no profiler runs, a command costs one relaxed load (opencl/queue.h).
#include <torch/headeronly/version.h>

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12  // earlier versions take no PrivateUse1 plug-in

#include "base/os.h"
#include "opencl/queue.h"
#include "torch/runtime/device.h"

#define USE_KINETO
#define FMT_HEADER_ONLY
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace ocl::runtime {

namespace {

using libkineto::ActivityType;

// One finished command; times in nanoseconds since the epoch.
struct Record {
  std::string name;
  Command::Kind kind;
  size_t bytes;
  int device, queue;
  int64_t issued, returned;  // around the enqueuing call, on `thread`
  int64_t start, end;        // on the device
  int32_t thread, process;
  uint64_t correlation, user_correlation;  // the operator and the record_function range around it; 0: none
};

struct Pending {
  Record record;
  Event event;
};

// What a thread is inside of; PyTorch pushes and pops around operators while a session runs.
thread_local std::vector<uint64_t> operators, ranges;

int32_t thread_id() {
  thread_local const auto id = os::thread_id();
  return id;
}

// Collects the commands of all threads between start() and stop().
class Tracer {
 public:
  void start() {
    std::lock_guard lock(mutex_);
    pending_.clear();
    finished_.clear();
    offsets_.clear();
    set_command_observer(&observe);
  }

  std::vector<Record> stop() {
    set_command_observer(nullptr);
    std::lock_guard lock(mutex_);
    harvest();
    return std::move(finished_);
  }

 private:
  static constexpr size_t batch = 8192;  // events held at most: drivers keep memory for each

  static void observe(Queue& queue, const Command& command, int64_t issued, Event event);

  void add(Queue& queue, const Command& command, int64_t issued, Event event) {
    std::lock_guard lock(mutex_);
    if (!offsets_.count(queue.device().index())) offsets_[queue.device().index()] = clock_offset(queue.device());
    pending_.push_back(
        {{command.name, command.kind, command.bytes, queue.device().index(), queue.id(), issued, epoch_time(), 0, 0,
          thread_id(), os::process_id(), operators.empty() ? 0 : operators.back(), ranges.empty() ? 0 : ranges.back()},
         std::move(event)});
    if (pending_.size() >= batch) harvest();
  }

  // Waits for the commands so far and reads their times.
  void harvest() {
    for (Pending& pending : pending_) {
      Record& record = pending.record;
      try {
        pending.event.wait();
        const auto [start, end] = pending.event.times();
        const int64_t offset = offsets_[record.device];
        record.start = static_cast<int64_t>(start) + offset;
        record.end = static_cast<int64_t>(end) + offset;
      } catch (const DriverError&) {
        continue;  // a failed command has no times; whoever synchronises next gets its error
      }
      // The offset between the clocks is good to some microseconds: no command starts before it is issued.
      if (record.start < record.issued) {
        record.end += record.issued - record.start;
        record.start = record.issued;
      }
      finished_.push_back(std::move(record));
    }
    pending_.clear();
  }

  // Epoch minus the device's clock: the smallest of a few distances between the end of a marker and the host's
  // knowledge of it.
  static int64_t clock_offset(Device& device) {
    static auto* queues = new std::map<int, std::unique_ptr<Queue>>;  // of its own: the user's work is not waited for
    auto& slot = (*queues)[device.index()];
    if (!slot) slot = std::make_unique<Queue>(device, -1);
    Queue& queue = *slot;
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; ++i) {
      const Event marker = queue.record();
      marker.wait();
      best = std::min(best, epoch_time() - static_cast<int64_t>(marker.end_time()));
    }
    return best;
  }

  std::mutex mutex_;
  std::vector<Pending> pending_;
  std::vector<Record> finished_;
  std::map<int, int64_t> offsets_;
};

Tracer& tracer() {
  static Tracer* instance = new Tracer;
  return *instance;
}

void Tracer::observe(Queue& queue, const Command& command, int64_t issued, Event event) {
  tracer().add(queue, command, issued, std::move(event));
}

const char* call_of(Command::Kind kind) {
  switch (kind) {
    case Command::Kind::kernel: return "clEnqueueNDRangeKernel";
    case Command::Kind::copy: return "clEnqueueCopyBuffer";
    case Command::Kind::read: return "clEnqueueReadBuffer";
    case Command::Kind::write: return "clEnqueueWriteBuffer";
    case Command::Kind::fill: return "clEnqueueFillBuffer";
  }
  return "";
}

ActivityType type_of(Command::Kind kind) {
  if (kind == Command::Kind::kernel) return ActivityType::CONCURRENT_KERNEL;
  return kind == Command::Kind::fill ? ActivityType::GPU_MEMSET : ActivityType::GPU_MEMCPY;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    begin_ = epoch_time();
    tracer().start();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    records_ = tracer().stop();
    end_ = epoch_time();
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }
  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t,
                    int64_t) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(begin_, end_, "OpenCL");
    buffer_->gpuOpCount = static_cast<int>(records_.size());
    for (const Record& record : records_) streams_.insert({record.device, record.queue});
    for (int last = -1; const auto& [index, queue] : streams_) {
      if (index == last) continue;
      const std::string name = "ocl:" + std::to_string(index);
      const std::string label = name + " " + device(static_cast<c10::DeviceIndex>(index)).capabilities().name;
      logger.handleDeviceInfo({index, libkineto::kExceedMaxPid + index, name, label}, begin_);
      last = index;
    }
    int32_t flow = 0;
    for (const Record& record : records_) {
      const libkineto::ITraceActivity* operation =
          record.correlation ? linked(static_cast<int32_t>(record.correlation)) : nullptr;
      if (!operation && record.user_correlation) operation = linked(static_cast<int32_t>(record.user_correlation));
      ++flow;
      auto& call = add(ActivityType::PRIVATEUSE1_RUNTIME, call_of(record.kind), record.issued, record.returned, flow,
                       true, operation);
      call.device = record.process;
      call.resource = call.threadId = record.thread;
      call.log(logger);
      auto& command = add(type_of(record.kind), record.name, record.start, record.end, flow, false, operation);
      command.device = record.device;
      command.resource = record.queue;
      command.threadId = record.thread;
      command.addMetadata("device", record.device);
      command.addMetadata("stream", record.queue);
      command.addMetadata("correlation", flow);
      if (record.correlation) command.addMetadata("External id", record.correlation);
      if (record.bytes) command.addMetadata("bytes", record.bytes);
      command.log(logger);
    }
    records_.clear();
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }  // several: given to the logger
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> infos;
    infos.reserve(streams_.size());
    for (const auto& [device, queue] : streams_)
      infos.push_back({queue, queue, device, "stream " + std::to_string(queue)});
    return infos;
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { operators.push_back(id); }
  void popCorrelationId() override {
    if (!operators.empty()) operators.pop_back();
  }
  void pushUserCorrelationId(uint64_t id) override { ranges.push_back(id); }
  void popUserCorrelationId() override {
    if (!ranges.empty()) ranges.pop_back();
  }

 private:
  libkineto::GenericTraceActivity& add(ActivityType type, const std::string& name, int64_t start, int64_t end,
                                       int32_t flow, bool starts, const libkineto::ITraceActivity* linked) {
    buffer_->emplace_activity(buffer_->span, type, name);
    libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
    activity.startTime = start;
    activity.endTime = end;
    activity.id = flow;
    activity.flow.id = static_cast<uint32_t>(flow);
    activity.flow.type = libkineto::kLinkAsyncCpuGpu;
    activity.flow.start = starts;
    activity.linked = linked;
    return activity;
  }

  int64_t begin_ = 0, end_ = 0;
  std::vector<Record> records_;
  std::set<std::pair<int, int>> streams_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config&) override {
    if (!wanted.count(ActivityType::CONCURRENT_KERNEL))
      return nullptr;  // ProfilerActivity.PrivateUse1 was not asked for
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& wanted,
                                                                 const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  const std::string name_ = "OpenCL";
  const std::set<ActivityType> activities_ = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                              ActivityType::GPU_MEMSET, ActivityType::PRIVATEUSE1_RUNTIME};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace

}  // namespace ocl::runtime

#endif

#include "opencl/command_list.h"

#include "opencl/memory/caching_allocator.h"
#include "opencl/memory/captured_segments.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace ocl {

// A sequence of random numbers of one list: those of the last replay are at `seed` and `first`. Another list may read
// it too, as the backward pass of an operator reads the numbers of its forward pass.
struct CommandList::RandomStream {
  uint64_t id = 0;
  const void* key = nullptr;
  std::unique_ptr<RandomSource> source;
  uint64_t used = 0, seed = 0, first = 0;

  static std::mutex& mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
  }
  static std::map<uint64_t, std::weak_ptr<RandomStream>>& all() {
    static auto* all = new std::map<uint64_t, std::weak_ptr<RandomStream>>;
    return *all;
  }
  // Ids are given to kernels as seeds, and are unlike those that people choose.
  static std::shared_ptr<RandomStream> make() {
    std::lock_guard lock(mutex());
    static uint64_t made = 0;
    auto stream = std::make_shared<RandomStream>();
    stream->id = ++made * 0x9e3779b97f4a7c15ull;
    all()[stream->id] = stream;
    return stream;
  }
  static std::shared_ptr<RandomStream> find(uint64_t id) {
    std::lock_guard lock(mutex());
    const auto found = all().find(id);
    return found == all().end() ? nullptr : found->second.lock();
  }
  ~RandomStream() {
    std::lock_guard lock(mutex());
    all().erase(id);
  }
};

namespace {
enum Kind : int { kLaunch, kCopy, kFill, kRead, kWrite };
std::atomic<int> captures_in_progress{0};
// What is written once must not lie in the list's pool: replays write there what was freed before, in the capture.
constexpr uint64_t everybodys = 0;
}  // namespace

struct CommandList::Step {
  int kind = kLaunch;
  // kLaunch; places are in kept_.
  Kernel* kernel = nullptr;
  Range global{}, local{};
  size_t arguments = 0, arguments_bytes = 0;
  Fusion fusion{};
  size_t fusion_data = 0;
  RandomStream* random = nullptr;
  size_t random_at = 0;
  // The others.
  void* destination = nullptr;
  const void* source = nullptr;
  size_t bytes = 0, pattern = 0, pattern_bytes = 0;
};

CommandList::CommandList(Device& device, uint64_t pool) : device_(device), pool_(pool) {
  device_.allocator().retain_pool(pool_);
}

CommandList::~CommandList() {
  leave();
  clear();
  device_.allocator().release_pool(pool_);
}

int CommandList::captures() { return captures_in_progress.load(std::memory_order_relaxed); }

size_t CommandList::size() const { return steps_.size(); }

void CommandList::begin(Queue& queue) {
  if (capturing_ || queue.capture()) throw Error("the stream captures a graph already");
  clear();
  capturing_ = true;
  ++captures_in_progress;
  captured_segments::begin();
  try {
    join(queue);
  } catch (...) {
    leave();
    throw;
  }
}

void CommandList::join(Queue& queue) {
  std::lock_guard lock(mutex_);
  if (queue.capture_.load() == this) return;
  if (&queue.device() != &device_) refuse("waiting for a stream of another device");
  queue.finish();
  CommandList* none = nullptr;
  if (!queue.capture_.compare_exchange_strong(none, this)) refuse("joining the captures of two graphs");
  queues_.push_back(&queue);
}

void CommandList::leave() {
  if (capturing_) {
    --captures_in_progress;
    std::vector<const void*> used = captured_segments::end();
    segments_.insert(segments_.end(), used.begin(), used.end());
  }
  capturing_ = false;
  for (Queue* queue : queues_) queue->capture_.store(nullptr);
  queues_.clear();
}

void CommandList::end() {
  std::lock_guard lock(mutex_);
  if (!capturing_) throw Error("the graph is not being captured");
  try {
    for (size_t i = 0; i < queues_.size(); ++i) queues_[i]->flush_deferred();
  } catch (const std::exception& error) {
    if (failure_.empty()) failure_ = error.what();
  }
  leave();
  if (failure_.empty()) return;
  const std::string failure = failure_;
  clear();
  throw Error("the capture of the graph failed and holds nothing: " + failure);
}

void CommandList::clear() {
  steps_.clear();
  kept_.clear();
  failure_.clear();
  random_.clear();
  others_.clear();
  for (void* constant : constants_) device_.allocator().free(constant);
  constants_.clear();
  captured_segments::release(segments_);
  device_.allocator().free(counters_);
  counters_ = nullptr;
}

void CommandList::refuse(const std::string& what) {
  std::lock_guard lock(mutex_);
  const std::string text = what + " is not permitted when stream is capturing";
  if (failure_.empty()) failure_ = text;
  throw Error("OCL error: operation not permitted when stream is capturing: " + what);
}

void* CommandList::constant(Queue& queue, const void* data, size_t bytes) {
  queue.flush_deferred();
  const Queue::Uncaptured now;
  void* memory = device_.allocator().allocate(bytes, queue, everybodys);
  std::lock_guard lock(mutex_);
  constants_.push_back(memory);
  queue.write(memory, data, bytes);
  queue.finish();
  return memory;
}

void* CommandList::counters(Queue& queue) {
  queue.flush_deferred();
  std::lock_guard lock(mutex_);
  if (!counters_) {
    const Queue::Uncaptured now;
    constexpr size_t bytes = Queue::counter_count * sizeof(int32_t);
    counters_ = device_.allocator().allocate(bytes, queue, everybodys);
    const int32_t zero = 0;
    queue.fill(counters_, &zero, sizeof zero, bytes);
    queue.finish();
  }
  return counters_;
}

std::pair<uint64_t, uint64_t> CommandList::reserve_random(const void* key,
                                                          const std::function<std::unique_ptr<RandomSource>()>& make,
                                                          uint64_t counters) {
  std::lock_guard lock(mutex_);
  auto found = std::find_if(random_.begin(), random_.end(), [&](const auto& stream) { return stream->key == key; });
  if (found == random_.end()) {
    random_.push_back(RandomStream::make());
    found = random_.end() - 1;
    (*found)->key = key;
    (*found)->source = make();
  }
  RandomStream& stream = **found;
  const uint64_t first = stream.used;
  stream.used += counters;
  return {stream.id, first};
}

size_t CommandList::keep(const void* data, size_t bytes) {
  const size_t at = kept_.size();
  const char* from = static_cast<const char*>(data);
  kept_.insert(kept_.end(), from, from + bytes);
  return at;
}

CommandList::Step& CommandList::add(Queue& queue, int kind) {
  queue.issued_.fetch_add(1, std::memory_order_relaxed);
  Step& step = steps_.emplace_back();
  step.kind = kind;
  return step;
}

void CommandList::add_launch(Queue& queue, const Arguments& arguments, const Range& global, const Range& local,
                             const Fusion& fusion) {
  std::lock_guard lock(mutex_);
  Step& step = add(queue, kLaunch);
  step.kernel = &arguments.kernel();
  step.global = global, step.local = local;
  step.arguments = keep(arguments.data(), arguments.bytes());
  step.arguments_bytes = arguments.bytes();
  step.fusion = fusion;
  step.fusion_data = keep(fusion.data, fusion.bytes);
  if (arguments.random() == Arguments::no_random) return;
  if (auto stream = RandomStream::find(arguments.random_seed())) {
    step.random = stream.get();
    step.random_at = arguments.random();
    if (std::find(random_.begin(), random_.end(), stream) == random_.end()) others_.push_back(std::move(stream));
  }
}

void CommandList::add_copy(Queue& queue, void* destination, const void* source, size_t bytes) {
  std::lock_guard lock(mutex_);
  Step& step = add(queue, kCopy);
  step.destination = destination, step.source = source, step.bytes = bytes;
  for (const void* address : {static_cast<const void*>(destination), source}) (void)find_location(address);  // marks it
}

void CommandList::add_fill(Queue& queue, void* destination, const void* pattern, size_t pattern_bytes, size_t bytes) {
  std::lock_guard lock(mutex_);
  Step& step = add(queue, kFill);
  step.destination = destination, step.bytes = bytes;
  (void)find_location(destination);
  step.pattern = keep(pattern, pattern_bytes);
  step.pattern_bytes = pattern_bytes;
}

void CommandList::add_read(Queue& queue, void* host, const void* source, size_t bytes) {
  std::lock_guard lock(mutex_);
  Step& step = add(queue, kRead);
  step.destination = host, step.source = source, step.bytes = bytes;
  (void)find_location(source);
}

void CommandList::add_write(Queue& queue, void* destination, const void* host, size_t bytes) {
  std::lock_guard lock(mutex_);
  Step& step = add(queue, kWrite);
  step.destination = destination, step.source = host, step.bytes = bytes;
  (void)find_location(destination);
}

void CommandList::issue(Queue& queue, const Step& step) const {
  switch (step.kind) {
    case kLaunch: {
      Arguments arguments(*step.kernel, kept_.data() + step.arguments, step.arguments_bytes);
      if (step.random) arguments.replace_random(step.random_at, step.random->seed, step.random->first);
      Fusion fusion = step.fusion;
      fusion.data = kept_.data() + step.fusion_data;
      return enqueue(queue, arguments, step.global, step.local, fusion);
    }
    case kCopy: return queue.copy(step.destination, step.source, step.bytes);
    case kFill: return queue.fill(step.destination, kept_.data() + step.pattern, step.pattern_bytes, step.bytes);
    case kRead: return queue.read(step.destination, step.source, step.bytes, false);
    case kWrite: return queue.write(step.destination, step.source, step.bytes, false);
    default: throw Error("a graph has a step of unknown kind");
  }
}

void CommandList::replay(Queue& queue) {
  std::lock_guard lock(mutex_);
  if (capturing_) throw Error("a graph cannot be replayed while it is captured");
  if (CommandList* other = queue.capture()) other->refuse("replaying a graph");
  if (&queue.device() != &device_) throw Error("the graph was captured on another device");
  if (last_queue_ && last_queue_ != &queue) queue.wait(last_);  // its memory is one
  for (auto& stream : random_) std::tie(stream->seed, stream->first) = stream->source->reserve(stream->used);
  for (const Step& step : steps_) issue(queue, step);
  if (device_.executor()) return;  // which keeps the commands of all queues in order
  last_ = queue.record();
  last_queue_ = &queue;
}

std::string CommandList::text() const {
  std::lock_guard lock(mutex_);
  static constexpr const char* names[] = {"kernel", "copy", "fill", "read", "write"};
  std::string result;
  for (const Step& step : steps_) {
    result += names[step.kind];
    result += " ";
    result += step.kernel ? step.kernel->name() : std::to_string(step.bytes) + " bytes";
    result += "\n";
  }
  return result;
}

}  // namespace ocl

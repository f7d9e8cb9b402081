#include "ops/core/tuning.h"

#include "base/atomic_file.h"
#include "base/environment.h"
#include "opencl/program/kernel_sources.h"
#include "opencl/program/program_cache.h"
#include "ops/elementwise/elementwise.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>

namespace ocl::ops::tuning {
namespace {

constexpr std::string_view shipped = "tuning/cpu.tsv";
// To be raised when the numbers of a problem change. 2: convolutions say the order of filters, TF32 and the mode of
// Winograd, products TF32.
constexpr std::string_view header = "# torch_ocl tuning 2\n", header_of_any = "# torch_ocl tuning ";
constexpr double needed_gain = 0.95;

std::atomic<bool>& measuring_flag() {
  static std::atomic<bool> value{environment::flag("TORCH_OCL_TUNE", false)};
  return value;
}

std::atomic<uint64_t>& changes() {
  static std::atomic<uint64_t> count{0};
  return count;
}

using Lines = std::map<std::string, std::string, std::less<>>;  // algorithm by the text of its problem

// A copy of the name that stays where it is.
std::string_view intern(std::string_view name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string, std::less<>>;
  std::lock_guard lock(mutex);
  return *names->emplace(name).first;
}

struct Table {
  Lines lines;
  Lines measured;  // the part that belongs on disk
};

void parse(std::string_view text, Lines& lines) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const size_t tab = line.find('\t');
    if (!line.starts_with('#') && tab != std::string_view::npos && tab > 0 && tab + 1 < line.size())
      lines.insert_or_assign(std::string(line.substr(0, tab)), std::string(line.substr(tab + 1)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::filesystem::path path_of(const Device& device) {
  return std::filesystem::path(program_cache::folder()) / "tuning" /
         (program_cache::key(device, "tuning", "# torch_ocl tuning 1\n") + ".tsv");  // one file for all versions
}

Lines on_disk(const Device& device) {
  Lines lines;
  const std::filesystem::path path = path_of(device);
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.starts_with(header_of_any) && !text.starts_with(header)) {
    std::fprintf(stderr,
                 "torch_ocl: the tuning results in %s are not used: another version of torch_ocl measured them, which "
                 "tells problems apart in another way. The next measurement replaces them.\n",
                 path.string().c_str());
    return lines;
  }
  parse(text, lines);
  return lines;
}

std::string text_of(const Lines& lines) {
  std::string text(header);
  for (const auto& [problem, name] : lines) text.append(problem).append("\t").append(name).append("\n");
  return text;
}

// Tables of all devices; never destroyed, as devices are not.
struct Tables {
  std::mutex mutex;
  std::map<int, Table> of_device;

  // The mutex must be held.
  Table& of(const Device& device) {
    const auto known = of_device.find(device.index());
    if (known != of_device.end()) return known->second;
    Table& table = of_device[device.index()];
    if (device.cpu_style())
      for (const KernelFile& file : embedded_kernel_files())
        if (file.name == shipped) parse(file.text, table.lines);
    if (program_cache::enabled()) table.measured = on_disk(device);
    for (const auto& [problem, name] : table.measured) table.lines.insert_or_assign(problem, name);
    return table;
  }
};

Tables& tables() {
  static auto* instance = new Tables;
  return *instance;
}

// ---- comparing results

std::vector<double> on_host(Queue& queue, const Result& result) {
  auto read = [&]<class T>(const void* data, T) {
    std::vector<T> values(static_cast<size_t>(result.numel));
    queue.read(values.data(), data, values.size() * sizeof(T));
    return std::vector<double>(values.begin(), values.end());
  };
  if (result.dtype == DType::float64) return read(result.data, double{});
  if (result.dtype == DType::float32) return read(result.data, float{});
  Workspace converted(queue, static_cast<size_t>(result.numel) * sizeof(float));
  elementwise(queue, elementwise_row("copy"), DType::float32,
              TensorView::contiguous(converted.data(), DType::float32, {result.numel}),
              {TensorView::contiguous(result.data, result.dtype, {result.numel})});
  return read(converted.data(), float{});
}

bool agree(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) != std::isfinite(b[i])) return false;
    if (!std::isfinite(a[i])) continue;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return difference <= tolerance * tolerance * norm;
}

void report(const Problem& problem, const char* name, const std::string& what) {
  std::fprintf(stderr, "torch_ocl: tuning leaves %s out for %s: %s\n", name, problem.text().c_str(), what.c_str());
}

// Seconds of one run on an idle queue; nothing when it fails.
std::optional<double> timed(Queue& queue, const Problem& problem, const Candidate& candidate) {
  try {
    const auto start = std::chrono::steady_clock::now();
    candidate.run();
    queue.finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } catch (const std::exception& error) {
    report(problem, candidate.name, error.what());
    return std::nullopt;
  }
}

using Clock = std::chrono::steady_clock;

struct Entry {
  const Candidate* candidate;
  double best = std::numeric_limits<double>::infinity();  // seconds
};

// The candidates that run and agree with the first that does. This first run also builds their kernels.
std::vector<Entry> accepted(Queue& queue, const Problem& problem, std::span<const Candidate> candidates,
                            const Result& result, Clock::time_point deadline) {
  const double tolerance = is_half(result.dtype) ? 2e-2 : 1e-3;
  std::vector<Entry> entries;
  std::vector<double> expected;
  for (const Candidate& candidate : candidates) {
    if (entries.size() > 1 && Clock::now() > deadline) break;
    if (!timed(queue, problem, candidate)) continue;
    std::vector<double> values = on_host(queue, result);
    if (entries.empty())
      expected = std::move(values);
    else if (!agree(expected, values, tolerance)) {
      report(problem, candidate.name, std::string("its result is not that of ") + entries[0].candidate->name);
      continue;
    }
    entries.push_back({&candidate});
  }
  return entries;
}

void race(Queue& queue, const Problem& problem, std::vector<Entry>& entries, Clock::time_point deadline) {
  double quickest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 5 && entries.size() > 1; ++round) {
    for (Entry& entry : entries) {
      if (entry.best > 2 * quickest && std::isfinite(entry.best)) continue;  // hopeless
      // Twice: the first run meets caches and threads as the candidate before it left them.
      for (int repetition = 0; repetition < 2; ++repetition)
        entry.best = std::min(entry.best, timed(queue, problem, *entry.candidate).value_or(entry.best));
      quickest = std::min(quickest, entry.best);
    }
    if (Clock::now() > deadline) break;
  }
}

std::string_view remember(const Device& device, const Problem& problem, const char* name) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  Table& table = all.of(device);
  const std::string text = problem.text();
  table.measured[text] = name;
  table.lines[text] = name;
  if (program_cache::enabled()) {
    Lines lines = on_disk(device);
    for (const auto& [measured, choice] : table.measured) lines.insert_or_assign(measured, choice);
    write_atomically(path_of(device), {text_of(lines)});
  }
  changes().fetch_add(1);
  return intern(name);
}

}  // namespace

Problem& Problem::add(int64_t number) {
  if (count_ == max_numbers) throw std::length_error("tuning::Problem: too many numbers");
  numbers_[static_cast<size_t>(count_++)] = number;
  return *this;
}

std::string Problem::text() const {
  std::string text = std::string(family_) + " " + name_of(dtype_);
  for (int i = 0; i < count_; ++i) text += " " + std::to_string(numbers_[static_cast<size_t>(i)]);
  return text;
}

bool measuring() { return measuring_flag().load(std::memory_order_relaxed); }
void set_measuring(bool on) {
  measuring_flag().store(on, std::memory_order_relaxed);
  changes().fetch_add(1);
}

uint64_t generation() { return changes().load(std::memory_order_acquire); }

void count_change() { changes().fetch_add(1); }

bool active(const Device& device) {
  if (measuring()) return true;
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  return !all.of(device).lines.empty();
}

std::string_view choice(const Device& device, const Problem& problem) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  Table& table = all.of(device);
  const auto line = table.lines.find(problem.text());
  return line == table.lines.end() ? std::string_view() : intern(line->second);
}

std::string_view measure(Queue& queue, const Problem& problem, std::span<const Candidate> candidates,
                         const Result& result) {
  if (candidates.size() == 1) return intern(candidates[0].name);
  if (queue.capture()) {  // nothing runs, and what is chosen now holds for this capture only
    count_change();
    return intern(candidates[0].name);
  }
  const auto deadline = Clock::now() + std::chrono::milliseconds(environment::number("TORCH_OCL_TUNE_BUDGET", 1000));
  queue.finish();
  std::vector<Entry> entries = accepted(queue, problem, candidates, result, deadline);
  if (entries.empty()) throw Unsupported("no algorithm works for " + problem.text());
  race(queue, problem, entries, deadline);
  const Entry* chosen = &entries[0];
  for (const Entry& entry : entries)
    if (entry.best < chosen->best * (chosen == &entries[0] ? needed_gain : 1.0)) chosen = &entry;
  if (environment::flag("TORCH_OCL_BUILD_LOG")) {
    std::string line = "torch_ocl: tuned " + problem.text() + ": " + chosen->candidate->name + " of";
    for (const Entry& entry : entries)
      line.append(" ").append(entry.candidate->name).append(" ").append(std::to_string(entry.best * 1e3)).append(" ms");
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  return remember(queue.device(), problem, chosen->candidate->name);
}

std::string table(const Device& device) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  return text_of(all.of(device).lines);
}

void clear(const Device& device) {
  Tables& all = tables();
  std::lock_guard lock(all.mutex);
  all.of_device.erase(device.index());
  changes().fetch_add(1);
  std::error_code ignored;
  std::filesystem::remove(path_of(device), ignored);
}

}  // namespace ocl::ops::tuning

// What a process asks of Linux: pages and addresses, processors and threads, libraries that are loaded, faults, forks.
// os_linux_processes.cpp and os_linux_files.cpp have the rest of os.h, os_windows*.cpp the same for Windows.
#include "base/os.h"

#include <dlfcn.h>
#if defined(__linux__)
#include <link.h>
#endif
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <pthread.h>
#include <string_view>
#include <thread>

namespace ocl::os {

void* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (bytes >= (size_t{2} << 20)) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

void* reserve_addresses(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void unmap(void* address, size_t bytes) { munmap(address, bytes); }

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

size_t installed_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<size_t>(pages) * page_size() : 0;
}

Limits limits() { return {}; }  // control groups limit it

size_t present_bytes(const void* pages, size_t bytes) {
  const size_t page = page_size();
  constexpr size_t most = 1 << 16;  // pages that are asked for at once
  std::vector<unsigned char> present(most);
  size_t result = 0;
  for (size_t done = 0; done < bytes; done += most * page) {
    const size_t part = std::min(bytes - done, most * page), count = (part + page - 1) / page;
    char* at = static_cast<char*>(const_cast<void*>(pages)) + done;
    if (mincore(at, part, present.data()) != 0) return bytes;
    for (size_t i = 0; i < count; ++i) result += present[i] & 1 ? page : 0;
  }
  return std::min(result, bytes);
}

// OpenMP libraries bind the main thread to the first of their places when they are loaded, and its mask says no more
// what the process may use. The union of the places does: they come from the mask that the process began with.
static void add_openmp_places(cpu_set_t& set) {
  constexpr const char* variables[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  if (std::none_of(std::begin(variables), std::end(variables), [](const char* name) { return std::getenv(name); }))
    return;
  for (const char* library : {"libgomp", "libiomp5", "libomp"}) {
    const auto places = reinterpret_cast<int (*)()>(function_of(library, "omp_get_num_places"));
    const auto count = reinterpret_cast<int (*)(int)>(function_of(library, "omp_get_place_num_procs"));
    const auto get = reinterpret_cast<void (*)(int, int*)>(function_of(library, "omp_get_place_proc_ids"));
    if (!places || !count || !get) continue;
    for (int place = 0, end = places(); place < end; ++place) {
      std::vector<int> processors(static_cast<size_t>(std::max(0, count(place))));
      get(place, processors.data());
      for (const int each : processors)
        if (each >= 0 && each < CPU_SETSIZE) CPU_SET(each, &set);
    }
  }
}

// Places may name processors that the machine or the control group does not have: the system says which of them it
// would let a thread run on.
static void leave_what_exists(cpu_set_t& set) {
  cpu_set_t before;
  CPU_ZERO(&before);
  if (sched_getaffinity(0, sizeof before, &before) != 0 || sched_setaffinity(0, sizeof set, &set) != 0) return;
  sched_getaffinity(0, sizeof set, &set);
  sched_setaffinity(0, sizeof before, &before);
}

// The processors of the process, from its main thread.
static const cpu_set_t& usable_set() {
  static const cpu_set_t set = [] {
    cpu_set_t now;
    CPU_ZERO(&now);
    sched_getaffinity(getpid(), sizeof now, &now);
    const cpu_set_t bound = now;
    add_openmp_places(now);
    if (!CPU_EQUAL(&bound, &now)) leave_what_exists(now);
    return now;
  }();
  return set;
}

unsigned machine_processors() {
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? static_cast<unsigned>(count) : std::max(1u, std::thread::hardware_concurrency());
}

unsigned allowed_processors() {
  const int count = CPU_COUNT(&usable_set());
  return count ? static_cast<unsigned>(count) : machine_processors();
}

std::vector<int> allowed_processor_numbers() {
  std::vector<int> result;
  for (int each = 0; each < CPU_SETSIZE; ++each)
    if (CPU_ISSET(each, &usable_set())) result.push_back(each);
  return result;
}

static cpu_set_t set_of(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int each : processors)
    if (each >= 0 && each < CPU_SETSIZE) CPU_SET(each, &set);
  return set;
}

void bind_thread(const std::vector<int>& processors) {
  const cpu_set_t set = set_of(processors);
  if (CPU_COUNT(&set)) sched_setaffinity(0, sizeof set, &set);
}

void unbind_thread() {
  if (CPU_COUNT(&usable_set())) sched_setaffinity(0, sizeof(cpu_set_t), &usable_set());
}

int current_processor() { return sched_getcpu(); }

int thread_id() { return static_cast<int>(syscall(SYS_gettid)); }

long long thread_clock() {
  clockid_t clock;
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? clock : 0;
}

long long processor_time(long long clock) {
  timespec time;
  return clock_gettime(static_cast<clockid_t>(clock), &time) == 0 ? time.tv_sec * 1'000'000'000ll + time.tv_nsec : -1;
}

void keep_off(int thread, int processor, const std::vector<int>& processors) {
  cpu_set_t set = processors.empty() ? usable_set() : set_of(processors);
  if (processor < 0 || processor >= CPU_SETSIZE) return;
  CPU_CLR(processor, &set);
  if (CPU_COUNT(&set)) sched_setaffinity(thread, sizeof set, &set);
}

void name_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry) names.emplace_back(*entry, std::strcspn(*entry, "="));
  return names;
}

void set_environment(const char* name, const char* value) {
  if (value)
    setenv(name, value, 1);
  else
    unsetenv(name);
}

void touch_constants(const std::string& library) {
#if defined(__linux__)
  const auto touch = [](dl_phdr_info* info, size_t, void* name) {
    const std::string path = info->dlpi_name, &wanted = *static_cast<const std::string*>(name);
    if (path.size() <= wanted.size() || path.compare(path.size() - wanted.size(), wanted.size(), wanted) ||
        path[path.size() - wanted.size() - 1] != '/')
      return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || segment.p_flags != PF_R) continue;
      const auto* begin = reinterpret_cast<const volatile char*>(info->dlpi_addr + segment.p_vaddr);
      for (size_t at = 0; at < segment.p_memsz; at += 4096) (void)begin[at];
    }
    return 0;
  };
  dl_iterate_phdr(touch, const_cast<std::string*>(&library));
#else
  (void)library;
#endif
}

bool keep_loaded(const void* address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname && dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

static constexpr int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
static thread_local sigjmp_buf* way_out = nullptr;

// Handlers belong to the whole process, so one call is tried at a time. Static: other threads may still be in our
// handler when the call has ended.
static struct sigaction handlers_before[std::size(faults)];

bool survives(void (*call)(void*), void* context) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  struct sigaction ours{};
  // A fault of another thread happens again under its own handler.
  ours.sa_sigaction = [](int signal, siginfo_t*, void*) {
    if (way_out) siglongjmp(*way_out, 1);
    for (size_t i = 0; i < std::size(faults); ++i)
      if (faults[i] == signal) sigaction(signal, &handlers_before[i], nullptr);
  };
  ours.sa_flags = SA_SIGINFO;
  for (size_t i = 0; i < std::size(faults); ++i) sigaction(faults[i], &ours, &handlers_before[i]);
  sigjmp_buf here;
  way_out = &here;
  volatile bool survived = false;
  if (sigsetjmp(here, 1) == 0) {
    call(context);
    survived = true;
  }
  way_out = nullptr;
  for (size_t i = 0; i < std::size(faults); ++i) sigaction(faults[i], &handlers_before[i], nullptr);
  return survived;
}

void* function_of(const char* library, const char* function) {
#if defined(__linux__)
  struct Search {
    std::string_view library;
    std::string path;
  } search{library, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* pointer) {
        auto& [library, path] = *static_cast<Search*>(pointer);
        const std::string_view whole = info->dlpi_name;
        if (!whole.substr(whole.rfind('/') + 1).starts_with(library)) return 0;
        path = whole;
        return 1;
      },
      &search);
  void* handle = search.path.empty() ? nullptr : dlopen(search.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  return handle ? dlsym(handle, function) : nullptr;  // the library stays loaded
#else
  (void)library, (void)function;
  return nullptr;
#endif
}

void* load_library(const std::string& path, std::string& problem) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    if (const char* text = dlerror()) problem = text;
  return library;
}

void* symbol(void* library, const char* name) { return dlsym(library, name); }

std::string file_beside_library(const char* name) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&file_beside_library), &info) || !info.dli_fname) return {};
  std::error_code error;
  const auto path = std::filesystem::absolute(info.dli_fname, error).parent_path() / name;
  return access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

void end_process(int status) { _exit(status); }

int process_id() { return static_cast<int>(getpid()); }

static std::atomic<bool> forked{false};

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  (void)registered;
}

void around_forks(void (*before)(), void (*after)()) { pthread_atfork(before, after, nullptr); }

}  // namespace ocl::os

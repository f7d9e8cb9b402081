// What differs between operating systems, all of it: address-space reservation, anonymous pages, process ids, the cache
// folder, locks between processes, other processes. A Windows counterpart (VirtualAlloc MEM_RESERVE / MEM_COMMIT,
// GetCurrentProcessId, LOCALAPPDATA, LockFileEx, CreateProcess) implements platform.h in platform_windows.cpp.
#include "base/os.h"

#include <dlfcn.h>
#include <fcntl.h>
#if defined(__linux__)
#include <link.h>
#include <sys/prctl.h>
#endif
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <pthread.h>
#include <spawn.h>
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

void keep_off(int thread, int processor) {
  cpu_set_t set = usable_set();
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

std::string file_beside_library(const char* name) {
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void*>(&file_beside_library), &info) || !info.dli_fname) return {};
  std::error_code error;
  const auto path = std::filesystem::absolute(info.dli_fname, error).parent_path() / name;
  return access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

void end_process(int status) { _exit(status); }

static bool write_all(int channel, const void* data, size_t bytes) noexcept {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t count = send(channel, at, bytes, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

static bool read_all(int channel, void* data, size_t bytes) noexcept {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t count = recv(channel, at, bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

ChildProcess::ChildProcess(const std::string& path) noexcept {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  char* const arguments[] = {const_cast<char*>(path.c_str()), nullptr};
  pid_t process = 0;
  if (posix_spawn(&process, path.c_str(), &actions, nullptr, arguments, environ) == 0) {
    channel_ = ends[0];
    process_ = process;
  } else {
    close(ends[0]);
  }
  close(ends[1]);
  posix_spawn_file_actions_destroy(&actions);
}

ChildProcess::~ChildProcess() {
  if (channel_ < 0) return;
  shutdown(channel_, SHUT_RDWR);  // forked processes may have the channel, too
  close(channel_);
  if (process_) waitpid(process_, nullptr, 0);
}

using Deadline = std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>>;

static Deadline in_seconds(double seconds) {
  return std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
}

// Whether something can be read, the end among it, before the deadline.
static bool readable(int channel, Deadline deadline) {
  for (;;) {
    const std::chrono::duration<double, std::milli> left = deadline - std::chrono::steady_clock::now();
    pollfd waiting{channel, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max(left.count(), 0.0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

void ChildProcess::finish_writing() noexcept {
  if (started()) shutdown(channel_, SHUT_WR);
}

ChildProcess::End ChildProcess::end(double seconds) noexcept {
  if (!process_) return end_;
  finish_writing();
  const Deadline deadline = in_seconds(seconds);
  for (char ignored[64];;) {  // the other side of the channel closes with the process
    const bool in_time = std::chrono::steady_clock::now() < deadline && readable(channel_, deadline);
    if (!in_time) kill(process_, SIGKILL);
    if (!in_time || recv(channel_, ignored, sizeof ignored, 0) <= 0) break;
  }
  int status = 0;
  const bool known = waitpid(process_, &status, 0) == process_;
  process_ = 0;
  if (!known) return end_;
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  end_text_ = (WIFSIGNALED(status) ? "signal " : "status ") + std::to_string(number);
  const bool own_fault =
      number == SIGABRT || std::find(std::begin(faults), std::end(faults), number) != std::end(faults);
  if (WIFSIGNALED(status))
    end_ = own_fault ? End::failed : End::stopped;
  else
    end_ = number == 0 ? End::clean : End::failed;
  return end_;
}

bool ChildProcess::write(const void* data, size_t bytes) noexcept { return write_all(channel_, data, bytes); }
bool ChildProcess::read(void* data, size_t bytes) noexcept { return read_all(channel_, data, bytes); }

// `stream` becomes what /dev/null is.
static void discard(int stream, int flags) {
  const int nothing = open("/dev/null", flags | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, stream);
}

ParentChannel::ParentChannel() noexcept : channel_(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) {
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  discard(STDIN_FILENO, O_RDONLY);
  if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) discard(STDOUT_FILENO, O_WRONLY);
}

bool ParentChannel::write(const void* data, size_t bytes) noexcept { return write_all(channel_, data, bytes); }
bool ParentChannel::read(void* data, size_t bytes, double seconds) noexcept {
  // No bytes are there at once: waiting for them would be waiting for the next message.
  return bytes == 0 || (readable(channel_, in_seconds(seconds)) && read_all(channel_, data, bytes));
}

void silence_output() {
  discard(STDOUT_FILENO, O_WRONLY);
  discard(STDERR_FILENO, O_WRONLY);
}

int process_id() { return static_cast<int>(getpid()); }

static std::atomic<bool> forked{false};

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  (void)registered;
}

void around_forks(void (*before)(), void (*after)()) { pthread_atfork(before, after, nullptr); }

std::string temporary_cache_folder() {
  const char* temporary = std::getenv("TMPDIR");
  return std::string(temporary && *temporary ? temporary : "/tmp") + "/cache-" + std::to_string(geteuid());
}

std::string user_cache_folder() {
  std::string folder;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg)
    folder = xdg;
  else if (const char* home = std::getenv("HOME"); home && *home)
    folder = std::string(home) + "/.cache";
  if (folder.empty()) return temporary_cache_folder();
  make_private_folder(folder);
  return faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? folder : temporary_cache_folder();
}

bool others_keep_off(const std::string& path) noexcept {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return true;  // nothing that could be read
  return (facts.st_uid == geteuid() || facts.st_uid == 0) && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void make_private_folder(const std::string& path) noexcept {
  try {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      mkdir(path.substr(0, end).c_str(), 0700);  // those that are there stay as they are
      if (end == std::string::npos) break;
    }
  } catch (...) {}
}

void make_private_file(const std::string& path) noexcept { chmod(path.c_str(), S_IRUSR | S_IWUSR); }

FileLock::FileLock(const std::string& path, double seconds) noexcept {
  make_private_folder(std::filesystem::path(path).parent_path().string());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  file_ = file;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!(held_ = flock(file, LOCK_EX | LOCK_NB) == 0)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    waited_ = true;
    if (std::chrono::steady_clock::now() > deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  if (held_) flock(static_cast<int>(file_), LOCK_UN);  // closing would not free it while a forked child holds a copy
  close(static_cast<int>(file_));
}

}  // namespace ocl::os

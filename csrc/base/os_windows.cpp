// What a process asks of Windows (10 or later): pages and addresses, processors and threads, libraries that are loaded,
// faults. os_windows_processes.cpp and os_windows_files.cpp have the rest of os.h. Narrow texts that are paths are what
// std::filesystem::path takes and gives. Processors are those of the process's own processor group, at most 64.
#include "base/os.h"

#include "base/os_windows.h"

#include <psapi.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>

namespace ocl::os {

// Reserved and committed at once: pages take memory when they are touched, but count against the commit limit before.
void* map_pages(size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

void* reserve_addresses(size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS); }

void unmap(void* address, size_t) { VirtualFree(address, 0, MEM_RELEASE); }

size_t page_size() {
  static const size_t size = [] {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return static_cast<size_t>(info.dwPageSize);
  }();
  return size;
}

static MEMORYSTATUSEX memory_status() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  if (!GlobalMemoryStatusEx(&status)) status = {};
  return status;
}

size_t installed_memory() { return static_cast<size_t>(memory_status().ullTotalPhys); }

Limits limits() {
  Limits result;
  result.available = memory_status().ullAvailPageFile;  // with the page file, as far as it may be committed
  JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate{};
  constexpr DWORD capped = JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
  if (QueryInformationJobObject(nullptr, JobObjectCpuRateControlInformation, &rate, sizeof rate, nullptr) &&
      (rate.ControlFlags & capped) == capped)
    result.processors = rate.CpuRate / 10'000.0 * machine_processors();  // hundredths of a percent of them all
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION job{};
  if (!QueryInformationJobObject(nullptr, JobObjectExtendedLimitInformation, &job, sizeof job, nullptr)) return result;
  const DWORD flags = job.BasicLimitInformation.LimitFlags;
  if (flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY) result.memory = job.ProcessMemoryLimit;
  if (flags & JOB_OBJECT_LIMIT_JOB_MEMORY) result.memory = std::min<uint64_t>(result.memory, job.JobMemoryLimit);
  if (result.memory != UINT64_MAX) {
    PROCESS_MEMORY_COUNTERS used{};
    if (!K32GetProcessMemoryInfo(GetCurrentProcess(), &used, sizeof used)) used = {};
    const uint64_t left = result.memory - std::min<uint64_t>(result.memory, used.PagefileUsage);
    result.available = std::min(result.available, left);
  }
  return result;
}

size_t present_bytes(const void* pages, size_t bytes) {
  const size_t page = page_size();
  std::vector<PSAPI_WORKING_SET_EX_INFORMATION> asked(1 << 12);
  size_t result = 0;
  for (size_t done = 0; done < bytes; done += asked.size() * page) {
    const size_t count = std::min(asked.size(), (bytes - done + page - 1) / page);
    for (size_t i = 0; i < count; ++i)
      asked[i].VirtualAddress = static_cast<char*>(const_cast<void*>(pages)) + done + i * page;
    if (!K32QueryWorkingSetEx(GetCurrentProcess(), asked.data(), static_cast<DWORD>(count * sizeof asked[0])))
      return bytes;
    for (size_t i = 0; i < count; ++i) result += asked[i].VirtualAttributes.Valid ? page : 0;
  }
  return std::min(result, bytes);
}

// The processors of the process; 0: they are of several groups.
static DWORD_PTR usable_mask() {
  static const DWORD_PTR mask = [] {
    DWORD_PTR process = 0, system = 0;
    return GetProcessAffinityMask(GetCurrentProcess(), &process, &system) ? process : DWORD_PTR{0};
  }();
  return mask;
}

unsigned machine_processors() {
  const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
  return count ? count : std::max(1u, std::thread::hardware_concurrency());
}

unsigned allowed_processors() {
  const int count = std::popcount(uint64_t{usable_mask()});
  return count ? static_cast<unsigned>(count) : machine_processors();
}

std::vector<int> allowed_processor_numbers() {
  std::vector<int> result;
  for (int each = 0; each < 64; ++each)
    if (usable_mask() >> each & 1) result.push_back(each);
  return result;
}

static DWORD_PTR mask_of(const std::vector<int>& processors) {
  DWORD_PTR mask = 0;
  for (const int each : processors)
    if (each >= 0 && each < 64) mask |= DWORD_PTR{1} << each;
  return mask;
}

void bind_thread(const std::vector<int>& processors) {
  if (const DWORD_PTR mask = mask_of(processors)) SetThreadAffinityMask(GetCurrentThread(), mask);
}

void unbind_thread() {
  if (usable_mask()) SetThreadAffinityMask(GetCurrentThread(), usable_mask());
}

int current_processor() { return static_cast<int>(GetCurrentProcessorNumber()); }

int thread_id() { return static_cast<int>(GetCurrentThreadId()); }

// Windows counts a thread's time in ticks of its clock, 16 milliseconds: too coarse for those who ask.
long long thread_clock() { return 0; }
long long processor_time(long long) { return -1; }

void keep_off(int thread, int processor, const std::vector<int>& processors) {
  if (processor < 0 || processor >= 64) return;
  const DWORD_PTR mask = (processors.empty() ? usable_mask() : mask_of(processors)) & ~(DWORD_PTR{1} << processor);
  const Handle handle(OpenThread(THREAD_SET_INFORMATION | THREAD_QUERY_INFORMATION, FALSE, static_cast<DWORD>(thread)));
  if (mask && handle) SetThreadAffinityMask(handle.get(), mask);
}

void name_thread(const char* name) {
  using Set = HRESULT(WINAPI*)(HANDLE, PCWSTR);  // Windows 10 has it from version 1607 on
  static const auto set = reinterpret_cast<Set>(
      reinterpret_cast<void*>(GetProcAddress(GetModuleHandleW(L"kernel32.dll"), "SetThreadDescription")));
  if (set) set(GetCurrentThread(), std::wstring(name, name + std::strlen(name)).c_str());
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  char* const all = GetEnvironmentStringsA();
  for (const char* entry = all; entry && *entry; entry += std::strlen(entry) + 1)
    if (*entry != '=') names.emplace_back(entry, std::strcspn(entry, "="));  // =C: and the like are folders of drives
  if (all) FreeEnvironmentStringsA(all);
  return names;
}

// An empty value is no value for getenv() here.
void set_environment(const char* name, const char* value) {
  _putenv_s(name, value ? value : "");
  SetEnvironmentVariableA(name, value);
}

void touch_constants(const std::string&) {}  // of PoCL's libraries, which Windows does not have

bool keep_loaded(const void* address) {
  HMODULE library;
  return GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                            static_cast<LPCWSTR>(address), &library);
}

static bool is_fault(DWORD code) {
  return code == EXCEPTION_ACCESS_VIOLATION || code == EXCEPTION_IN_PAGE_ERROR ||
         code == EXCEPTION_ILLEGAL_INSTRUCTION || code == EXCEPTION_PRIV_INSTRUCTION ||
         code == EXCEPTION_DATATYPE_MISALIGNMENT || code == EXCEPTION_INT_DIVIDE_BY_ZERO ||
         code == EXCEPTION_INT_OVERFLOW || (code >= EXCEPTION_FLT_DENORMAL_OPERAND && code <= EXCEPTION_FLT_UNDERFLOW);
}

#if defined(_MSC_VER)

bool survives(void (*call)(void*), void* context) {
  __try {
    call(context);
  } __except (is_fault(GetExceptionCode()) ? EXCEPTION_EXECUTE_HANDLER : EXCEPTION_CONTINUE_SEARCH) {
    return false;
  }
  return true;
}

#elif defined(__x86_64__)

// GCC has no __try. The thread goes on in leave(), on its stack below the fault, and from there to where survives() is.
static thread_local void** way_out = nullptr;

[[noreturn]] static void leave() { __builtin_longjmp(way_out, 1); }

static LONG CALLBACK on_exception(EXCEPTION_POINTERS* exception) {
  if (!way_out || !is_fault(exception->ExceptionRecord->ExceptionCode)) return EXCEPTION_CONTINUE_SEARCH;
  CONTEXT& thread = *exception->ContextRecord;
  thread.Rip = reinterpret_cast<DWORD64>(&leave);
  thread.Rsp = (thread.Rsp & ~DWORD64{15}) - 136;  // as behind a call, with room that the calling convention wants
  return EXCEPTION_CONTINUE_EXECUTION;
}

[[gnu::noinline]] static bool returns(void (*call)(void*), void* context) {
  void* here[5];
  if (__builtin_setjmp(here)) return false;
  way_out = here;
  call(context);
  return true;
}

bool survives(void (*call)(void*), void* context) {
  void* const handler = AddVectoredExceptionHandler(1, on_exception);
  const bool survived = returns(call, context);
  way_out = nullptr;
  if (handler) RemoveVectoredExceptionHandler(handler);
  return survived;
}

#else
#error "os::survives() is not written for this compiler and processor"
#endif

void* function_of(const char* library, const char* function) {
  std::vector<HMODULE> modules(256);
  DWORD bytes = 0;
  while (K32EnumProcessModules(GetCurrentProcess(), modules.data(),
                               static_cast<DWORD>(modules.size() * sizeof(HMODULE)), &bytes) &&
         bytes > modules.size() * sizeof(HMODULE))
    modules.resize(bytes / sizeof(HMODULE));
  modules.resize(std::min(modules.size(), bytes / sizeof(HMODULE)));
  for (HMODULE module : modules) {
    char name[MAX_PATH] = {};
    K32GetModuleBaseNameA(GetCurrentProcess(), module, name, sizeof name);
    if (_strnicmp(name, library, std::strlen(library)) == 0)
      if (void* const found = reinterpret_cast<void*>(GetProcAddress(module, function))) return found;
  }
  return nullptr;
}

void* load_library(const std::string& path, std::string& problem) {
  HMODULE library = LoadLibraryW(std::filesystem::path(path).c_str());
  if (!library) problem = std::system_category().message(static_cast<int>(GetLastError()));
  return library;
}

void* symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

std::string file_beside_library(const char* name) {
  HMODULE library;
  if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                          reinterpret_cast<LPCWSTR>(reinterpret_cast<const void*>(&file_beside_library)), &library))
    return {};
  std::wstring file(1 << 15, L'\0');  // the longest path that there is
  file.resize(GetModuleFileNameW(library, file.data(), static_cast<DWORD>(file.size())));
  std::error_code error;
  auto path = std::filesystem::path(file).parent_path() / name;
  path += ".exe";
  return std::filesystem::is_regular_file(path, error) ? path.string() : std::string();
}

void end_process(int status) {
  TerminateProcess(GetCurrentProcess(),
                   static_cast<UINT>(status));  // ExitProcess() would run what libraries registered
  std::abort();
}

int process_id() { return static_cast<int>(GetCurrentProcessId()); }

// Windows has no fork().
void watch_forks() {}
bool in_forked_child() { return false; }
void around_forks(void (*)(), void (*)()) {}

}  // namespace ocl::os

// Other processes on Windows: programs that are started with a channel, two pipes, and the child's side of it.
#include "base/os.h"

#include "base/os_windows.h"

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace ocl::os {

static bool write_all(HANDLE pipe, const void* data, size_t bytes) noexcept {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    DWORD count = 0;
    if (!WriteFile(pipe, at, static_cast<DWORD>(std::min<size_t>(bytes, 1 << 30)), &count, nullptr)) return false;
    at += count;
    bytes -= count;
  }
  return true;
}

static bool read_all(HANDLE pipe, void* data, size_t bytes) noexcept {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    DWORD count = 0;
    if (!ReadFile(pipe, at, static_cast<DWORD>(std::min<size_t>(bytes, 1 << 30)), &count, nullptr) || count == 0)
      return false;
    at += count;
    bytes -= count;
  }
  return true;
}

namespace {

// The list of handles that a process inherits, instead of all that can be inherited at this moment.
class Inherited {
 public:
  explicit Inherited(std::vector<HANDLE>& handles) {
    SIZE_T bytes = 0;
    InitializeProcThreadAttributeList(nullptr, 1, 0, &bytes);
    memory_.resize(bytes);
    good_ = InitializeProcThreadAttributeList(list(), 1, 0, &bytes);
    made_ = good_;
    good_ = good_ && UpdateProcThreadAttribute(list(), 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles.data(),
                                               handles.size() * sizeof(HANDLE), nullptr, nullptr);
  }
  ~Inherited() {
    if (made_) DeleteProcThreadAttributeList(list());
  }
  Inherited(const Inherited&) = delete;
  bool good() const { return good_; }
  LPPROC_THREAD_ATTRIBUTE_LIST list() { return reinterpret_cast<LPPROC_THREAD_ATTRIBUTE_LIST>(memory_.data()); }

 private:
  std::vector<char> memory_;
  bool made_ = false, good_ = false;
};

// Two ends of a pipe: what is written into the second is read from the first.
struct Pipe {
  Handle read, write;
  Pipe() {
    HANDLE from = nullptr, to = nullptr;
    if (!CreatePipe(&from, &to, nullptr, 1 << 16)) return;
    read.reset(from), write.reset(to);
  }
};

// The same object under a handle that a child may inherit; none for none.
Handle inheritable(HANDLE handle) {
  HANDLE copy = nullptr;
  if (!handle || handle == INVALID_HANDLE_VALUE) return nullptr;
  const HANDLE self = GetCurrentProcess();
  return Handle(DuplicateHandle(self, handle, self, &copy, 0, TRUE, DUPLICATE_SAME_ACCESS) ? copy : nullptr);
}

// Children in this job end when the last handle of it is closed: with this process, however it ends.
HANDLE job_of_children() {
  static const HANDLE job = [] {
    const HANDLE made = CreateJobObjectW(nullptr, nullptr);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    if (made) SetInformationJobObject(made, JobObjectExtendedLimitInformation, &limits, sizeof limits);
    return made;
  }();
  return job;
}

// A handle of the new process; nullptr: it was not started.
HANDLE start(const std::string& path, HANDLE input, HANDLE output) {
  const Handle error = inheritable(GetStdHandle(STD_ERROR_HANDLE));
  std::vector<HANDLE> handles{input, output};
  if (error) handles.push_back(error.get());
  Inherited inherited(handles);
  if (!inherited.good()) return nullptr;
  STARTUPINFOEXW startup{};
  startup.StartupInfo.cb = sizeof startup;
  startup.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  startup.StartupInfo.hStdInput = input;
  startup.StartupInfo.hStdOutput = output;
  startup.StartupInfo.hStdError = error.get();
  startup.lpAttributeList = inherited.list();
  std::filesystem::path program(path);
  if (!program.has_extension()) program += ".exe";
  std::wstring line = L"\"" + program.wstring() + L"\"";
  // A program with windows has no console, and none should open for its child.
  const DWORD flags = EXTENDED_STARTUPINFO_PRESENT | CREATE_SUSPENDED | (GetConsoleWindow() ? 0 : CREATE_NO_WINDOW);
  PROCESS_INFORMATION made{};
  if (!CreateProcessW(program.c_str(), line.data(), nullptr, nullptr, TRUE, flags, nullptr, nullptr,
                      &startup.StartupInfo, &made))
    return nullptr;
  if (job_of_children()) AssignProcessToJobObject(job_of_children(), made.hProcess);
  ResumeThread(made.hThread);
  CloseHandle(made.hThread);
  return made.hProcess;
}

}  // namespace

ChildProcess::ChildProcess(const std::string& path) noexcept {
  try {
    Pipe there, back;
    const Handle input = inheritable(there.read.get()), output = inheritable(back.write.get());
    const HANDLE process = input && output ? start(path, input.get(), output.get()) : nullptr;
    if (!process) return;
    process_ = number_of(process);
    to_child_ = number_of(there.write.release());
    channel_ = number_of(back.read.release());
  } catch (...) {  // no memory: as good as a program that is not there
  }
}

ChildProcess::~ChildProcess() {
  if (channel_ < 0) return;
  finish_writing();
  CloseHandle(handle_of(channel_));
  if (!process_) return;
  WaitForSingleObject(handle_of(process_), INFINITE);
  CloseHandle(handle_of(process_));
}

using Deadline = std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>>;

static Deadline in_seconds(double seconds) {
  return std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
}

enum class PipeState { data, empty, ended };

static PipeState state_of(HANDLE pipe) {
  DWORD bytes = 0;
  if (!PeekNamedPipe(pipe, nullptr, 0, nullptr, &bytes, nullptr)) return PipeState::ended;
  return bytes ? PipeState::data : PipeState::empty;
}

// Whether something can be read, the end among it, before the deadline. Pipes without a name cannot be waited for: they
// are looked at, at first often.
static bool readable(HANDLE pipe, Deadline deadline) {
  for (int looks = 0; state_of(pipe) == PipeState::empty; ++looks) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (looks < 100)
      SwitchToThread();
    else
      Sleep(1);
  }
  return true;
}

void ChildProcess::finish_writing() noexcept {
  if (to_child_ >= 0) CloseHandle(handle_of(to_child_));
  to_child_ = -1;
}

ChildProcess::End ChildProcess::end(double seconds) noexcept {
  if (!process_) return end_;
  finish_writing();
  const HANDLE pipe = handle_of(channel_), process = handle_of(process_);
  const Deadline deadline = in_seconds(seconds);
  bool in_time = true;
  for (char ignored[64];;) {  // the other side of the pipe closes with the process
    DWORD count = 0;
    in_time = std::chrono::steady_clock::now() < deadline && readable(pipe, deadline);
    if (!in_time) TerminateProcess(process, 1);
    if (!in_time || !ReadFile(pipe, ignored, sizeof ignored, &count, nullptr) || count == 0) break;
  }
  DWORD status = 0;
  const bool known = WaitForSingleObject(process, INFINITE) == WAIT_OBJECT_0 && GetExitCodeProcess(process, &status);
  CloseHandle(process);
  process_ = 0;
  if (!known || !in_time) return end_;
  char text[32];
  // Exceptions that nobody caught are the status of the process.
  std::snprintf(text, sizeof text, status >= 0xc0000000u ? "exception %08lx" : "status %lu", status);
  end_text_ = text;
  return end_ = status == 0 ? End::clean : End::failed;
}

bool ChildProcess::write(const void* data, size_t bytes) noexcept {
  return to_child_ >= 0 && write_all(handle_of(to_child_), data, bytes);
}
bool ChildProcess::read(void* data, size_t bytes) noexcept {
  return channel_ >= 0 && read_all(handle_of(channel_), data, bytes);
}

// A handle of the stream's own, which the stream does not close.
static HANDLE copy_of(DWORD stream) {
  const HANDLE self = GetCurrentProcess();
  HANDLE copy = INVALID_HANDLE_VALUE;
  DuplicateHandle(self, GetStdHandle(stream), self, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS);
  return copy;
}

// `stream` becomes what `file` is; libraries with a C library of their own ask the system for it.
static void replace(int stream, DWORD name, int file) {
  if (file < 0 || _dup2(file, stream) != 0) return;
  SetStdHandle(name, reinterpret_cast<HANDLE>(_get_osfhandle(stream)));
}

ParentChannel::ParentChannel() noexcept
    : channel_(number_of(copy_of(STD_INPUT_HANDLE))), answers_(number_of(copy_of(STD_OUTPUT_HANDLE))) {
  SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);  // nobody is there to close a window
#if defined(_MSC_VER) || defined(_UCRT)
  _set_abort_behavior(0, _WRITE_ABORT_MSG | _CALL_REPORTFAULT);
#endif
  const int nothing = _open("NUL", _O_RDWR | _O_NOINHERIT);
  replace(0, STD_INPUT_HANDLE, nothing);
  replace(1, STD_OUTPUT_HANDLE, _get_osfhandle(2) >= 0 ? 2 : nothing);
  if (nothing >= 0) _close(nothing);
}

bool ParentChannel::write(const void* data, size_t bytes) noexcept {
  return write_all(handle_of(answers_), data, bytes);
}
bool ParentChannel::read(void* data, size_t bytes, double seconds) noexcept {
  const HANDLE pipe = handle_of(channel_);
  // No bytes are there at once: waiting for them would be waiting for the next message.
  return bytes == 0 || (readable(pipe, in_seconds(seconds)) && read_all(pipe, data, bytes));
}

void silence_output() {
  const int nothing = _open("NUL", _O_WRONLY | _O_NOINHERIT);
  replace(1, STD_OUTPUT_HANDLE, nothing);
  replace(2, STD_ERROR_HANDLE, nothing);
  if (nothing >= 0) _close(nothing);
}

}  // namespace ocl::os

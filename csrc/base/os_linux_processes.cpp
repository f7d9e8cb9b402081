// Other processes on Linux: programs that are started with a channel, and the child's side of it.
#include "base/os.h"

#include <fcntl.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iterator>
#include <spawn.h>

namespace ocl::os {

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
  shutdown(static_cast<int>(channel_), SHUT_RDWR);  // forked processes may have the channel, too
  close(static_cast<int>(channel_));
  if (process_) waitpid(static_cast<pid_t>(process_), nullptr, 0);
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
  if (started()) shutdown(static_cast<int>(channel_), SHUT_WR);
}

ChildProcess::End ChildProcess::end(double seconds) noexcept {
  if (!process_) return end_;
  finish_writing();
  const int channel = static_cast<int>(channel_);
  const auto process = static_cast<pid_t>(process_);
  const Deadline deadline = in_seconds(seconds);
  for (char ignored[64];;) {  // the other side of the channel closes with the process
    const bool in_time = std::chrono::steady_clock::now() < deadline && readable(channel, deadline);
    if (!in_time) kill(process, SIGKILL);
    if (!in_time || recv(channel, ignored, sizeof ignored, 0) <= 0) break;
  }
  int status = 0;
  const bool known = waitpid(process, &status, 0) == process;
  process_ = 0;
  if (!known) return end_;
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  end_text_ = (WIFSIGNALED(status) ? "signal " : "status ") + std::to_string(number);
  constexpr int own_faults[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  const bool own_fault = std::find(std::begin(own_faults), std::end(own_faults), number) != std::end(own_faults);
  if (WIFSIGNALED(status))
    end_ = own_fault ? End::failed : End::stopped;
  else
    end_ = number == 0 ? End::clean : End::failed;
  return end_;
}

bool ChildProcess::write(const void* data, size_t bytes) noexcept {
  return write_all(static_cast<int>(channel_), data, bytes);
}
bool ChildProcess::read(void* data, size_t bytes) noexcept { return read_all(static_cast<int>(channel_), data, bytes); }

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

bool ParentChannel::write(const void* data, size_t bytes) noexcept {
  return write_all(static_cast<int>(channel_), data, bytes);
}
bool ParentChannel::read(void* data, size_t bytes, double seconds) noexcept {
  const int channel = static_cast<int>(channel_);
  // No bytes are there at once: waiting for them would be waiting for the next message.
  return bytes == 0 || (readable(channel, in_seconds(seconds)) && read_all(channel, data, bytes));
}

void silence_output() {
  discard(STDOUT_FILENO, O_WRONLY);
  discard(STDERR_FILENO, O_WRONLY);
}

}  // namespace ocl::os

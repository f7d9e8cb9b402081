// The operating system, as far as the library needs it. The files that implement it are named after the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ocl::os {

// Zeroed, page-aligned, committed lazily. nullptr on failure.
void* map_pages(size_t bytes);
// Address space that traps when touched. nullptr on failure.
void* reserve_addresses(size_t bytes);
void unmap(void* address, size_t bytes);
size_t page_size();
// Bytes of memory that the machine has; 0: unknown. What a process may use of it: processors.h.
size_t installed_memory();
// What limits this process where there are no control groups (control_group.h), as Windows's job objects do.
struct Limits {
  double processors = 0;         // processors' worth of time; 0: no limit
  uint64_t memory = UINT64_MAX;  // bytes
  uint64_t available = 0;        // bytes of memory that may still be taken; 0: unknown
};
Limits limits();
// Bytes of these pages (an address at a page's beginning) that take memory at this moment; the others were never
// written. All of them where the system cannot say.
size_t present_bytes(const void* pages, size_t bytes);

// Processors of the machine, and those that this process may run on; at least 1. How many it should use: processors.h.
unsigned machine_processors();
unsigned allowed_processors();
// The numbers of the latter, in ascending order; empty where the system does not number them.
std::vector<int> allowed_processor_numbers();
// Lets the calling thread run on all processors of this process: threads begin with the affinity mask of the thread
// that starts them, which may be bound to one processor.
void unbind_thread();
// Lets the calling thread, and those that it starts from now on, run on these processors only, where the system can do
// that.
void bind_thread(const std::vector<int>& processors);
// A name for the calling thread in debuggers and system monitors, at most 15 characters.
void name_thread(const char* name);
// The processor that the caller runs on at this moment; -1: unknown.
int current_processor();
int thread_id();
// The clock of the processor time that the calling thread takes, and its time in nanoseconds, which any thread of the
// process may ask for. Unknown: 0 and, also after the thread has ended, -1.
long long thread_clock();
long long processor_time(long long clock);
// Lets a thread of this process run on all of these processors (empty: those of the process) but this one; nothing
// where there is no other.
void keep_off(int thread, int processor, const std::vector<int>& processors = {});
// The names of all environment variables.
std::vector<std::string> environment_names();
// Sets an environment variable of this process, or removes it (nullptr).
void set_environment(const char* name, const char* value);

// Makes the read-only data of loaded libraries with this file name present. Where a page of it is not, a load under a
// mask that is empty, which vector code has many of, takes some hundred cycles each time and brings nothing in.
void touch_constants(const std::string& library);

// Keeps the library loaded that this address belongs to, until the process ends. False: the address is in no library
// (code made by a JIT compiler, say), and whoever owns the memory may take it back.
bool keep_loaded(const void* address);
// Calls call(context) and returns true, or false when the processor refused to go on in it (a bad address or
// instruction); what it held then is not released. For code that has not been tried; other threads' faults are theirs.
bool survives(void (*call)(void*), void* context);

// The address of a function in a loaded library, given by the beginning of its file name, or in one that it depends on;
// nullptr: there is none.
void* function_of(const char* library, const char* function);

// Loads a library until the process ends; nullptr and a `problem`: it cannot be. symbol: what it has by this name.
void* load_library(const std::string& path, std::string& problem);
void* symbol(void* library, const char* name);

// The path of an executable that lies in the folder of the library (or program) that contains this function; empty:
// there is none. On Windows .exe is added to the name.
std::string file_beside_library(const char* name);
// Ends this process at once, without destructors of static objects.
[[noreturn]] void end_process(int status);

// A program that runs with this process's environment and talks to it by a channel. It is not waited for when it ends
// by itself.
class ChildProcess {
 public:
  // clean: status 0. failed: another status, or a fault of the process. stopped: somebody ended it, or it is not known.
  enum class End { clean, failed, stopped };

  // On Windows the path may be without its .exe.
  explicit ChildProcess(const std::string& path) noexcept;
  ~ChildProcess();  // ends the channel, on which it should end
  ChildProcess(const ChildProcess&) = delete;
  bool started() const { return channel_ >= 0; }
  // All of it; false when the process is gone. They block.
  bool write(const void* data, size_t bytes) noexcept;
  bool read(void* data, size_t bytes) noexcept;
  // It can read no more than what has been written.
  void finish_writing() noexcept;
  // Finishes writing and waits until it ends, at most so many seconds, after which it is stopped. How it ended:
  // nothing that it does at its end, exit handlers of drivers among it, is left out.
  End end(double seconds) noexcept;
  // After end(): "signal 11", "status 8", "exception c0000005".
  const std::string& end_text() const { return end_text_; }

 private:
  // A socket and a process number; Windows: handles, and the pipe in the other direction is a second one.
  long long channel_ = -1, to_child_ = -1, process_ = 0;
  End end_ = End::stopped;
  std::string end_text_;
};

// The other side, in the child process: to be made before anything else reads or writes the standard streams. From then
// on standard input is empty, and what drivers print to standard output goes where errors go, not into the channel. The
// process ends when its parent's thread that started it does, where the system can do that.
class ParentChannel {
 public:
  ParentChannel() noexcept;
  ParentChannel(const ParentChannel&) = delete;
  // All of it; false when the parent has ended the channel, or nothing came for so many seconds. They block.
  bool write(const void* data, size_t bytes) noexcept;
  bool read(void* data, size_t bytes, double seconds) noexcept;

 private:
  long long channel_, answers_ = -1;  // as in ChildProcess
};
// Discards what this process prints from now on.
void silence_output();

int process_id();
// OpenCL drivers do not survive fork(): watch_forks() is called before the first device is opened, in_forked_child() is
// true in every process forked after that.
void watch_forks();
bool in_forked_child();
// From now on around every fork, the second in the parent only.
void around_forks(void (*before)(), void (*after)());

// Where programs of this user keep what they can make again: $XDG_CACHE_HOME or ~/.cache, and where neither can be
// written temporary_cache_folder(), a folder of the user's own among the temporary files.
std::string user_cache_folder();
std::string temporary_cache_folder();
// Whether nobody but this process's user and the system's administrator can have put there what lies at `path`: one of
// them owns it, and neither its group nor others may write it. Also true where nothing can be found.
bool others_keep_off(const std::string& path) noexcept;
// Makes a folder, and what is missing above it, that only this process's user may enter.
void make_private_folder(const std::string& path) noexcept;
// Takes from everybody but this process's user the right to read and to write a file.
void make_private_file(const std::string& path) noexcept;

// An exclusive lock between processes, in an empty file at `path` that is made where needed and stays. The system frees
// it when the process ends however it ends; a fork does not prolong it. Waits at most `seconds`, then, and wherever the
// file system knows no locks, goes on without it.
class FileLock {
 public:
  FileLock(const std::string& path, double seconds) noexcept;
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return held_; }
  bool waited() const { return waited_; }  // another process held it before

 private:
  long long file_ = -1;  // a POSIX descriptor or a Windows handle
  bool held_ = false, waited_ = false;
};

}  // namespace ocl::os

// A team of threads for OpenCL devices that execute every command on the thread that enqueues it (HostDriver in
// launch_grid.h).
//
// A driver with threads of its own has to wake them for every kernel and the host when they have ended: tens of
// microseconds, longer than most kernels of a small network run. Here the thread that runs a launch is one of the team:
// it takes groups of the launch like the others and returns when all are done, as a parallel loop of a CPU library
// does. The others wait spinning for a moment after each launch and then asleep. Launches that nobody waits for yet are
// run by the first of those (command_queue.h).
#pragma once

#include <atomic>
#include <cstdint>

namespace ocl {

// A short rest of a thread that waits spinning.
void pause_thread();

class ThreadPool {
 public:
  // Executes units [begin, end) of a launch; called at the same time by several members. Returns an OpenCL error code.
  using Piece = int32_t (*)(void* context, unsigned member, uint32_t begin, uint32_t end);

  // The team of this process, with as many members as base/processors.h says; lives until the process ends.
  static ThreadPool& instance();
  // The number of members that instance() has; 0 when such devices are not to be used.
  static unsigned wanted();

  // The most threads that launches from now on may use; 0: all. Ignored where TORCH_OCL_HOST_THREADS says how many.
  static void set_limit(unsigned threads);

  // Member 0 is whichever thread of the program takes part, the others are threads of the team.
  unsigned members() const { return members_; }

  // Executes all of [0, units) and returns the first error. Every member has a share of its own, the same in every
  // launch of as many units (its data may still be in that processor's cache), takes it in pieces of falling size, then
  // takes what others have left. `unit_time`: nanoseconds that one unit took last time (0: unknown), for the size of
  // pieces; updated. While another thread has the team, the caller does everything itself as member `members()`.
  int32_t run(uint32_t units, std::atomic<float>& unit_time, Piece piece, void* context);

  // A thread of the program takes part in the launch that a thread of the team runs at this moment, as member 0.
  // Returns whether there was anything to do.
  bool assist();
  bool assisted() const;  // whether a thread does at this moment
  static bool in_main_thread();
  // Whether the calling thread is inside of a piece.
  static bool executing();

  // Threads of an OpenMP library spin for milliseconds after a parallel region, and those of the team do not get their
  // processors then. Launches of the main thread are run by these threads instead as long as they do: by `parallel`,
  // which calls body(context) on `members` threads at the same time, one of them the caller, and returns when all have
  // ended. It may return false and do nothing. `spinning`: whether these threads kept processors busy since the last
  // call; null: they are asked for whenever those of the team do not come.
  struct Lender {
    bool (*parallel)(void (*body)(void*), void* context, unsigned members) = nullptr;
    bool (*spinning)() = nullptr;
  };
  static void set_lender(const Lender& lender);
  // Whether that may be done, which keeps the other threads awake. Threads of the program say so that wait for nearly
  // every command: others gain more by preparing commands while the team's first thread runs those before. For the main
  // thread.
  void allow_borrowing(bool allowed);
  // Whether that is so for the calling thread: its commands are then best run at once, by itself.
  bool borrows() const;

  // `work` is called on the first of the team's threads, soon after every call_first(), never twice at the same time.
  // Needs two members.
  void set_first_work(void (*work)());
  void call_first();
  // Sends that thread, where there is one, to another processor when it was last seen on the caller's.
  void make_room_for_first();

  ThreadPool(const ThreadPool&) = delete;

 private:
  explicit ThreadPool(unsigned members);
  struct State;
  bool run_borrowed();

  unsigned members_;
  State* state_;
};

}  // namespace ocl

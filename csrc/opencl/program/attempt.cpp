#include "opencl/program/attempt.h"

#include "opencl/error.h"
#include "opencl/program/compiler_process.h"
#include "opencl/program/kept_answers.h"
#include "opencl/program/program_cache.h"

#include <memory>
#include <mutex>

namespace ocl {

namespace {

[[noreturn]] void throw_ended(const ProgramRequest& request, const std::string& how) {
  const Capabilities& c = request.device->capabilities();
  throw BuildError(CL_BUILD_PROGRAM_FAILURE, "the compiler of " + c.name + " (" + c.platform_name + " " +
                                                 c.driver_version + ") ended the process in which it was tried (" +
                                                 how + "): " + description(request));
}

struct Outcome {
  std::string end;  // of the process; empty: it lives, or could not be started
  bool certain;     // nobody else has ended it
};

Outcome attempt(const ProgramRequest& request) {
  static std::mutex mutex;
  static auto& process = *new std::unique_ptr<CompilerProcess>;  // ends when it has nothing to do for a while
  const std::lock_guard lock(mutex);
  Outcome outcome{};
  for (int tries = 0; tries < 3 && !outcome.certain; ++tries) {
    if (!process) process = std::make_unique<CompilerProcess>();
    process->attempt(request);
    if (process->answer() != CompilerProcess::Answer::gone) return {};
    outcome.certain = process->end() == os::ChildProcess::End::failed;
    outcome.end = process->end_text();
    process.reset();
  }
  return outcome;
}

}  // namespace

void attempt_program(const ProgramRequest& request) {
  const std::string answer_key = program_cache::key(*request.device, request.options, "attempt\n" + request.source);
  if (const auto known = kept_answers::get(answer_key)) throw_ended(request, *known);
  const Outcome outcome = attempt(request);
  if (outcome.end.empty()) return;
  if (outcome.certain) kept_answers::keep(answer_key, outcome.end);
  throw_ended(request, outcome.end);
}

}  // namespace ocl

#include "base/thread_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <system_error>

namespace mtrun {
namespace {

const char* program = "";
std::terminate_handler otherwise = nullptr;

/// Writes to the descriptor, because the log can need a thread.
[[noreturn]] void EndWithoutThread() {
  rlimit limit = {};
  getrlimit(RLIMIT_NPROC, &limit);
  char text[400];
  const int size = std::snprintf(text, sizeof text,
                                 "%s: cannot start a thread: this user may have %lld processes and threads "
                                 "(ulimit -u), and the control group may allow fewer "
                                 "(pids.max); raise the limit, or end other programs\n",
                                 program, static_cast<long long>(limit.rlim_cur));
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, static_cast<size_t>(size));
  _exit(1);
}

[[noreturn]] void OnTerminate() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    if (error.code().value() == EAGAIN) EndWithoutThread();
  } catch (...) {
  }
  otherwise();
  std::abort();
}

}  // namespace

void ExplainLackOfThreads(const char* name) {
  program = name;
  otherwise = std::set_terminate(OnTerminate);
}

}  // namespace mtrun

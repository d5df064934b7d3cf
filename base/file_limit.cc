#include "base/file_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/posix.h"

namespace mtrun {
namespace {

rlimit Ask() {
  rlimit limit = {1024, 1024};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

}  // namespace

void RaiseFileLimit() {
  rlimit limit = InheritedFileLimit();
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

const rlimit& InheritedFileLimit() {
  static const rlimit inherited = Ask();
  return inherited;
}

void MakeRoomForFiles(size_t count) {
  const auto last = static_cast<int>(std::min(count, FileLimit())) - 1;
  const UniqueFd grows(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, last));
}

size_t FileLimit() { return Ask().rlim_cur; }

}  // namespace mtrun

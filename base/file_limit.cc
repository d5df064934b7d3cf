#include "base/file_limit.h"

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

size_t FileLimit() { return Ask().rlim_cur; }

}  // namespace mtrun

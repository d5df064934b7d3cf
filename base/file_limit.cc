#include "base/file_limit.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/posix.h"

namespace mtrun {
namespace {

constexpr char kSizeLimit[] = "mtrun/size-limit";  // tells EFBIG from a full disk

rlimit Ask() {
  rlimit limit = {1024, 1024};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

}  // namespace

void RaiseFileLimit(size_t wanted) {
  rlimit limit = InheritedFileLimit();
  const rlimit beyond = {wanted, wanted};
  if (wanted > limit.rlim_max && setrlimit(RLIMIT_NOFILE, &beyond) == 0) return;
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

void SurviveSizeLimit() { signal(SIGXFSZ, SIG_IGN); }

size_t SizeLimit() {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

absl::Status AtSizeLimit(const std::string& text) {
  const size_t limit = SizeLimit();
  absl::Status status = absl::ResourceExhaustedError(
      limit == RLIM_INFINITY ? text : absl::StrCat(text, " (ulimit -f allows ", limit, " bytes in a file)"));
  status.SetPayload(kSizeLimit, absl::Cord());
  return status;
}

bool IsAtSizeLimit(const absl::Status& status) { return status.GetPayload(kSizeLimit).has_value(); }

}  // namespace mtrun

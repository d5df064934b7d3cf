#include "mtdata/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "datasets/packed/data_url.h"
#include "datasets/remote/fetch_rules.h"
#include "datasets/remote/transfers.h"

namespace mtrun::mtdata {
namespace {

using datasets::TransferEnd;
using datasets::Transfers;

constexpr int64_t kMaxBytes = int64_t{1} << 31;  // an endless answer ends there
constexpr Duration kWatchEvery = std::chrono::seconds(1);

/// The bytes received so far.
class PartialFile {
 public:
  static absl::StatusOr<PartialFile> Open(const std::string& path) {
    MT_RETURN_IF_ERROR(MakeFolders(path.substr(0, path.rfind('/'))));
    const std::string part = path + ".part";
    UniqueFd fd(open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", part));
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
      return absl::UnavailableError(absl::StrCat("another process is writing ", part));
    struct stat found {};
    if (fstat(fd.get(), &found) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", part));
    return PartialFile(path, std::move(fd), found.st_size);
  }

  int64_t size() const { return size_; }

  absl::Status Take(int64_t offset, std::string_view bytes) {
    if (offset == 0 && size_ > 0) MT_RETURN_IF_ERROR(Clear());  // a server without ranges
    if (size_ + static_cast<int64_t>(bytes.size()) > kMaxBytes)
      return absl::DataLossError(absl::StrCat("the server sends more than ", kMaxBytes, " bytes"));
    if (lseek(fd_.get(), size_, SEEK_SET) < 0) return ErrnoStatus(errno, absl::StrCat("write ", part()));
    MT_RETURN_IF_ERROR(Annotate(WriteAll(fd_.get(), bytes), part()));
    size_ += static_cast<int64_t>(bytes.size());
    return absl::OkStatus();
  }

  absl::Status Clear() {
    if (ftruncate(fd_.get(), 0) != 0) return ErrnoStatus(errno, absl::StrCat("truncate ", part()));
    size_ = 0;
    return absl::OkStatus();
  }

  absl::Status Finish(const std::string& digits) {
    if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", part()));
    MT_ASSIGN_OR_RETURN(const std::string sum, Sha256OfFile(part()));
    if (!absl::StartsWith(sum, digits)) {
      MT_RETURN_IF_ERROR(Clear());
      return absl::DataLossError(absl::StrCat("its SHA-256 is ", sum, ", but must begin with ", digits));
    }
    if (rename(part().c_str(), path_.c_str()) != 0)
      return ErrnoStatus(errno, absl::StrCat("rename ", part()));
    return SyncFolder(path_.substr(0, path_.rfind('/')));
  }

 private:
  PartialFile(std::string path, UniqueFd fd, int64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}
  std::string part() const { return path_ + ".part"; }

  std::string path_;
  UniqueFd fd_;
  int64_t size_;
};

bool IsWorthATry(const TransferEnd& end) {
  if (end.link == TransferEnd::Link::kBroken) return true;
  return end.link == TransferEnd::Link::kOk && datasets::MayRecover(end.status);
}

bool IsComplete(const TransferEnd& end) {
  return end.link == TransferEnd::Link::kOk && (end.status == 200 || end.status == 206);
}

std::string Describe(const TransferEnd& end, const std::string& url) {
  if (end.link != TransferEnd::Link::kOk) return absl::StrCat(url, ": ", end.error);
  const std::string answer = absl::StrCat(url, ": the server answers HTTP ", end.status);
  return end.location.empty() ? answer : absl::StrCat(answer, ", ", end.location);
}

/// Waits until `until`, and calls `watch` in between.
absl::Status Pause(TimePoint until, const std::string& trouble, int64_t received,
                   const DownloadWatch& watch) {
  while (true) {
    MT_RETURN_IF_ERROR(watch(received, trouble));
    const Duration left = until - MonotonicNow();
    if (left <= Duration::zero()) return absl::OkStatus();
    poll(nullptr, 0, static_cast<int>(ToSeconds(std::min(left, kWatchEvery)) * 1000) + 1);
  }
}

/// Returns how one try ended. Errors are of this machine, or of `watch`.
absl::StatusOr<TransferEnd> Try(const std::string& url, PartialFile& file, const DownloadWatch& watch) {
  absl::Status refused;
  Transfers transfers;
  MT_ASSIGN_OR_RETURN(const datasets::DataUrl parsed, datasets::ParseDataUrl(url));
  transfers.Start(1, {.url = url, .direct = IsLoopback(parsed.host), .from = file.size()},
                  [&](int64_t offset, std::string_view bytes) {
                    refused = file.Take(offset, bytes);
                    return refused;
                  });
  std::vector<pollfd> others;
  while (true) {
    const std::vector<Transfers::Ended> ended = transfers.Wait(others, kWatchEvery);
    MT_RETURN_IF_ERROR(refused);
    if (!ended.empty()) return ended.front().end;
    MT_RETURN_IF_ERROR(watch(file.size(), ""));
  }
}

}  // namespace

absl::Status FetchFile(const Download& download, const DownloadWatch& watch) {
  MT_ASSIGN_OR_RETURN(PartialFile file, PartialFile::Open(download.path));
  for (int tries = 1;; ++tries) {
    const bool resumed = file.size() > 0;
    MT_ASSIGN_OR_RETURN(const TransferEnd end, Try(download.url, file, watch));
    // The part of an earlier call can be of another file, or damaged: only a whole copy proves the server
    // wrong.
    if (IsComplete(end) || (end.status == 416 && resumed)) {  // 416: it had every byte
      const absl::Status finished = file.Finish(download.digits);
      if (finished.ok() || !absl::IsDataLoss(finished)) return finished;
      if (!resumed) return Annotate(finished, download.url);
    } else if (!IsWorthATry(end)) {
      return absl::FailedPreconditionError(Describe(end, download.url));
    } else {
      const Duration pause = datasets::PauseBefore(tries, /*random=*/0, end.wait_seconds);
      MT_RETURN_IF_ERROR(Pause(MonotonicNow() + pause, Describe(end, download.url), file.size(), watch));
    }
  }
}

}  // namespace mtrun::mtdata

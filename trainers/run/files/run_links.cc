#include "trainers/run/files/run_links.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/manifest.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;

/// Points `link` to `target`, or removes it if `target` is "".
absl::Status Point(const std::string& link, const std::string& target) {
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(link, ignored);
  if (fs::exists(there) && !fs::is_symlink(there)) return absl::OkStatus();
  if (target.empty()) {
    if (unlink(link.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
    return ErrnoStatus(errno, absl::StrCat("remove ", link));
  }
  if (fs::read_symlink(link, ignored) == target) return absl::OkStatus();
  // Create a link next to it and rename it, so that it always points somewhere.
  const std::string made = absl::StrCat(link, ".", getpid(), ".new");
  unlink(made.c_str());
  if (symlink(target.c_str(), made.c_str()) != 0)
    return ErrnoStatus(errno, absl::StrCat("create the link ", link));
  if (rename(made.c_str(), link.c_str()) == 0) return absl::OkStatus();
  const absl::Status failed = ErrnoStatus(errno, absl::StrCat("create the link ", link));
  unlink(made.c_str());
  return failed;
}

std::string TargetOf(const std::string& folder, int64_t step) {
  const std::string name = checkpoints::StepFolder(step);
  std::error_code ignored;
  return fs::exists(absl::StrCat(folder, "/", name), ignored) ? name : "";
}

}  // namespace

absl::Status UpdateLinks(const std::string& folder, int64_t latest, std::optional<int64_t> best) {
  MT_RETURN_IF_ERROR(Point(absl::StrCat(folder, "/", kLatestLink), TargetOf(folder, latest)));
  return Point(absl::StrCat(folder, "/", kBestLink), best ? TargetOf(folder, *best) : "");
}

}  // namespace mtrun::trainers

#include "datasets/files/class_share.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace mtrun::datasets {
namespace {

/// A training image during the choice.
struct Candidate {
  absl::string_view class_name;
  uint64_t hash = 0;
  absl::string_view path;
  NamedFile* file = nullptr;
  bool operator<(const Candidate& other) const {
    return std::tie(class_name, hash, path) < std::tie(other.class_name, other.hash, other.path);
  }
};

uint64_t HashOf(const NamedFile& file) {
  const absl::string_view name = file.class_name.empty() ? kOneClass : file.class_name;
  return std::stoull(Sha256Hex(absl::StrCat(name, "/", file.file)).substr(0, 16), nullptr, 16);
}

absl::Status CheckUnfilled(const std::vector<NamedFile>& files, absl::string_view split, double share) {
  if (share <= 0) return absl::OkStatus();
  for (const NamedFile& file : files) {
    if (SplitOf(file.folder) == split)
      return absl::InvalidArgumentError(absl::StrCat("--", split, "_share: the source already has a folder ",
                                                     AsPlainText({file.folder.data(), file.folder.size()}),
                                                     "/"));
  }
  return absl::OkStatus();
}

/// Returns how many of `count` images a share takes if `available` may be taken.
int64_t TakenOf(double share, int64_t count, int64_t available) {
  if (share <= 0) return 0;
  const auto rounded = static_cast<int64_t>(std::floor(share * static_cast<double>(count) + 0.5));
  return std::clamp(rounded, std::min<int64_t>(1, available), available);
}

}  // namespace

absl::Status TakeShares(const std::vector<absl::string_view>& paths, const Shares& shares,
                        std::vector<NamedFile>& files) {
  if (shares.test <= 0 && shares.val <= 0) return absl::OkStatus();
  MT_RETURN_IF_ERROR(CheckUnfilled(files, "test", shares.test));
  MT_RETURN_IF_ERROR(CheckUnfilled(files, "val", shares.val));
  std::vector<Candidate> all;
  for (NamedFile& file : files) {
    if (SplitOf(file.folder) == "train")
      all.push_back({file.class_name, HashOf(file), paths[file.path], &file});
  }
  std::sort(all.begin(), all.end());
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end =
        std::find_if(begin, all.end(), [&](const Candidate& c) { return c.class_name != begin->class_name; });
    const auto is_new = [&](auto image) { return image == begin || image->path != (image - 1)->path; };
    int64_t count = 0;
    for (auto image = begin; image != end; ++image) count += is_new(image) ? 1 : 0;
    const int64_t test = TakenOf(shares.test, count, count - 1);
    const int64_t val = TakenOf(shares.val, count, count - 1 - test);
    int64_t rank = -1;
    for (auto image = begin; image != end; ++image) {
      rank += is_new(image) ? 1 : 0;
      if (rank < test + val) image->file->folder = rank < test ? "test" : "val";
    }
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace mtrun::datasets

#include "datasets/import/image_folder.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "datasets/files/parallel.h"
#include "datasets/images/image_names.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

// Images per task of a thread: taking a task costs as much as decoding a thumbnail.
constexpr int64_t kImagesAtOnce = 16;
constexpr size_t kNamedClasses = 5;  // in a warning
// Limits of LooksLikeImageFolder.
constexpr int kEntriesToLookAt = 100'000, kEntriesOfAFolder = 10'000;
constexpr int kFollowedDepth = 3;  // links are followed in the places of split and class folders

class ImageFolder : public ImageSource {
 public:
  ImageFolder(ImageFiles files, const ImageRules& rules) : files_(std::move(files)), rules_(rules) {
    Number();
  }

  const ImageFiles* files() const override { return &files_; }

  /// Stops at the first good image; CopyTo reports the bad ones before it.
  absl::Status FindShape() override {
    if (rules_.fixed_size()) {
      size_ = *rules_.fixed_size();
      return absl::OkStatus();
    }
    std::vector<BadFile> bad;
    for (size_t i = 0; i < files_.listing.images.size(); ++i) {
      const auto image = Decode(i);
      if (image.ok()) {
        size_ = image->size;
        size_from_ = std::string(files_.file(i).path);
        return absl::OkStatus();
      }
      bad.push_back({std::string(files_.file(i).path), std::string(image.status().message())});
    }
    return absl::InvalidArgumentError(
        absl::StrCat("none of the ", bad.size(), " files is a readable image; the first: ",
                     bad.empty() ? "none" : AsPlainText(bad[0].path + ": " + bad[0].why)));
  }

  PackedShape shape() const override {
    return {
        .height = size_.height, .width = size_.width, .classes = files_.listing.classes, .splits = counts_};
  }

  absl::StatusOr<std::vector<BadFile>> CopyTo(ImageSink& sink, int threads) override {
    std::map<size_t, std::string> bad;  // sorted, because threads find them in any order
    Mutex bad_mutex;
    const auto copy = [&](size_t i) -> absl::Status {
      const TreeImage& target = files_.listing.images[i];
      bool oriented = false;
      const auto image = Decode(i, &oriented);
      if (absl::IsAborted(image.status())) return image.status();  // the listing is invalid
      if (!image.ok()) {
        const MutexLock lock(bad_mutex);
        bad[i] = std::string(image.status().message());
        return absl::OkStatus();
      }
      oriented_ += oriented ? 1 : 0;
      if (image->size != size_) return MixedSizes(std::string(files_.file(i).path), image->size);
      return sink.Put(std::string(target.split), positions_[i], {target.label}, image->size, image->pixels);
    };
    const auto copy_some = [&](int64_t begin, int64_t end) -> absl::Status {
      for (int64_t i = begin; i < end; ++i) MT_RETURN_IF_ERROR(copy(static_cast<size_t>(i)));
      return absl::OkStatus();
    };
    const auto images = static_cast<int64_t>(positions_.size());
    const absl::Status copied = ParallelChunks(images, kImagesAtOnce, threads, copy_some);
    if (!copied.ok()) return copied;
    return LeaveOut(bad);
  }

  int64_t oriented() const override { return oriented_; }

 private:
  absl::StatusOr<RgbImage> Decode(size_t image, bool* oriented = nullptr) const {
    MT_ASSIGN_OR_RETURN(const std::string bytes, files_.Read(image));
    return DecodeFitted(bytes, rules_, oriented);
  }

  absl::Status MixedSizes(const std::string& path, const ImageSize& size) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "images differ in size: ", AsPlainText(size_from_), " is ", SizeText(size_), ", ", AsPlainText(path),
        " is ", SizeText(size), "; give --resize HEIGHTxWIDTH or --store encoded"));
  }

  std::vector<BadFile> LeaveOut(const std::map<size_t, std::string>& bad) {
    std::vector<BadFile> files;
    for (const auto& [index, why] : bad) files.push_back({std::string(files_.file(index).path), why});
    size_t image = 0;
    std::erase_if(files_.listing.images, [&](const TreeImage&) { return bad.count(image++) != 0; });
    Number();
    return files;
  }

  /// Assigns each image its index in its split.
  void Number() {
    counts_.clear();
    positions_.clear();
    for (const TreeImage& image : files_.listing.images)
      positions_.push_back(counts_[std::string(image.split)]++);
  }

  ImageFiles files_;
  const ImageRules rules_;
  std::vector<int64_t> positions_;         // indices of the listing's images in their splits
  std::map<std::string, int64_t> counts_;  // images in each split
  std::atomic<int64_t> oriented_ = 0;
  ImageSize size_;
  std::string size_from_;  // the image that determined size_
};

}  // namespace

bool LooksLikeImageFolder(const std::string& folder) {
  struct Folder {
    fs::path path;
    int depth = 0;  // of its entries
  };
  std::deque<Folder> folders{{folder, 1}};  // to look into, shallow ones first
  for (int looked_at = 0; !folders.empty() && looked_at < kEntriesToLookAt; folders.pop_front()) {
    const Folder one = folders.front();
    std::error_code error;
    int entries = 0;
    for (fs::directory_iterator entry(one.path, error), end; !error && entry != end; entry.increment(error)) {
      if (++entries > kEntriesOfAFolder) break;
      const std::string name = entry->path().filename().string();
      std::error_code ignored;
      const bool is_folder = entry->is_directory(ignored);
      if (is_folder && one.depth == 1 && IsSplitFolder(name)) return true;
      if (!is_folder && one.depth > 1 && HasImageName(name) && !IsHiddenName(name)) return true;
      const bool is_entered = one.depth < kFollowedDepth || !entry->is_symlink(ignored);
      if (is_folder && is_entered && !IsInHiddenFolder({name, ""}))
        folders.push_back({entry->path(), one.depth + 1});
    }
    looked_at += entries;
  }
  return false;
}

bool HoldsImages(const std::string& folder) {
  std::error_code error;
  int entries = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (HasImageName(name) && !IsHiddenName(name) && !entry->is_directory(ignored)) return true;
    if (++entries > kEntriesOfAFolder) return false;
  }
  return false;
}

std::string EvaluationWarning(const TreeListing& listing, const std::string& name, const Shares& shares) {
  std::map<absl::string_view, std::vector<bool>> held;  // by split: whether it has images of a class
  for (const TreeImage& image : listing.images) {
    std::vector<bool>& classes = held[image.split];
    classes.resize(listing.classes.size());
    classes[static_cast<size_t>(image.label)] = true;
  }
  held.erase("train");
  if (held.empty() && (shares.test > 0 || shares.val > 0))
    return absl::StrCat(name,
                        " has one image of each class, which is for training, so there are no images to "
                        "evaluate with; add images");
  if (held.empty())
    return absl::StrCat(name,
                        " has no test/ or val/, so there are no images to evaluate with; "
                        "--test_share 0.1 sets a tenth of each class aside");
  const auto& [split, classes] = *held.begin();  // test, or val
  std::vector<std::string> missing;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (!classes[i]) missing.push_back(AsPlainText(listing.classes[i]));
  }
  if (missing.empty()) return "";
  const size_t count = missing.size();
  if (count > kNamedClasses) missing.resize(kNamedClasses);
  return absl::StrCat(name, ": ", split, " has no images of ", count, " of ", classes.size(),
                      " classes: ", absl::StrJoin(missing, ", "), count > kNamedClasses ? ", ..." : "");
}

absl::StatusOr<std::unique_ptr<ImageSource>> MakeImageSource(ImageFiles files, const ImportOptions& options) {
  if (files.listing.images.empty())
    return absl::InvalidArgumentError(absl::StrCat(options.source, ": no images are left to import"));
  const std::string warning = EvaluationWarning(files.listing, options.source, options.tree.shares);
  if (!warning.empty()) log::Warning(warning);
  return std::make_unique<ImageFolder>(std::move(files), options.rules);
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageFolder(const ImportOptions& options) {
  MT_ASSIGN_OR_RETURN(ImageFiles files, FindImageFiles(options));
  return MakeImageSource(std::move(files), options);
}

}  // namespace mtrun::datasets

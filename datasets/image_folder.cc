#include "datasets/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "datasets/further_formats.h"
#include "datasets/parallel.h"
#include "datasets/tar_reader.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

// Images travel to the decoders in batches: handing over one costs as much as decoding a thumbnail.
constexpr size_t kBatchImages = 32;
constexpr size_t kBatchBytes = 1 << 20;
constexpr int64_t kMaxImageFile = int64_t{256} << 20;
constexpr char kExpected[] = "expected train/<class>/<image> and test/<class>/<image> or val/<class>/<image>";

bool IsSplitFolder(const std::string& name) { return name == "train" || name == "test" || name == "val"; }

/// An encoded image on its way to a decoder: the bytes, or the file that has them.
struct Work {
  size_t index = 0;
  std::string file;  // "" when `bytes` are there
  std::string bytes;
};

/// A tree that can be listed and read; `visit` returns false to stop.
class Tree {
 public:
  virtual ~Tree() = default;
  virtual absl::StatusOr<std::vector<std::string>> Paths() = 0;
  /// Visits the images in the cheapest order.
  virtual absl::Status Visit(const std::vector<TreeImage>& images,
                             const std::function<bool(Work)>& visit) = 0;
};

class FolderTree : public Tree {
 public:
  explicit FolderTree(std::string root) : root_(std::move(root)) {}

  absl::StatusOr<std::vector<std::string>> Paths() override {
    std::vector<std::string> paths;
    for (const char* split : {"train", "test", "val"}) {
      std::error_code error;
      if (!fs::is_directory(fs::path(root_) / split, error)) continue;
      MT_RETURN_IF_ERROR(Collect(split, 2, &paths));
    }
    return paths;
  }

  absl::Status Visit(const std::vector<TreeImage>& images, const std::function<bool(Work)>& visit) override {
    for (size_t i = 0; i < images.size(); ++i) {
      if (!visit({.index = i, .file = absl::StrCat(root_, "/", images[i].path), .bytes = ""})) break;
    }
    return absl::OkStatus();
  }

 private:
  /// Lists files down to `levels` folders; a folder below that is listed as a path, for ListTree to refuse.
  absl::Status Collect(const std::string& folder, int levels, std::vector<std::string>* paths) {
    std::error_code error;
    for (fs::directory_iterator entry(fs::path(root_) / folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      const std::string path = absl::StrCat(folder, "/", name);
      std::error_code ignored;
      const bool is_folder = entry->is_directory(ignored);
      if (is_folder && levels > 1 && name[0] != '.') MT_RETURN_IF_ERROR(Collect(path, levels - 1, paths));
      if (!is_folder || levels == 1) paths->push_back(is_folder ? path + "/" : path);
    }
    return error ? ErrnoStatus(error.value(), absl::StrCat("list ", root_, "/", folder)) : absl::OkStatus();
  }

  const std::string root_;
};

class TarTree : public Tree {
 public:
  explicit TarTree(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<std::vector<std::string>> Paths() override {
    MT_ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(path_));
    std::vector<std::string> paths;
    for (;;) {
      MT_ASSIGN_OR_RETURN(const bool more, reader.Next());
      if (!more) return paths;
      paths.push_back(reader.name());
    }
  }

  absl::Status Visit(const std::vector<TreeImage>& images, const std::function<bool(Work)>& visit) override {
    std::unordered_map<std::string, size_t> wanted;
    for (size_t i = 0; i < images.size(); ++i) wanted[images[i].path] = i;
    MT_ASSIGN_OR_RETURN(TarReader reader, TarReader::Open(path_));
    for (;;) {
      MT_ASSIGN_OR_RETURN(const bool more, reader.Next());
      if (!more) return absl::OkStatus();
      const auto found = wanted.find(reader.name());
      if (found == wanted.end()) continue;
      if (!reader.is_file()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": ", reader.name(), " is a link; unpack the archive and import the folder"));
      }
      MT_ASSIGN_OR_RETURN(std::string bytes, reader.Read(kMaxImageFile));
      if (!visit({.index = found->second, .file = "", .bytes = std::move(bytes)})) return absl::OkStatus();
    }
  }

 private:
  const std::string path_;
};

absl::StatusOr<RgbImage> Decode(const Work& work, const DecodeLimits& limits) {
  if (work.file.empty()) return DecodeAnyImage(work.bytes, limits);
  MT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(work.file));
  return DecodeAnyImage(bytes, limits);
}

class ImageFolder : public ImageSource {
 public:
  ImageFolder(std::unique_ptr<Tree> tree, TreeListing listing, const SourceOptions& options)
      : tree_(std::move(tree)),
        listing_(std::move(listing)),
        size_(options.resize.value_or(ImageSize{})),
        resizes_(options.resize),
        limits_(options.limits) {
    Number();
  }

  /// Without a resize: takes the size of the first image that can be read. The bad ones before it are found
  /// again by CopyTo.
  absl::Status FindSize() {
    if (resizes_) return absl::OkStatus();
    std::vector<BadFile> bad;
    MT_RETURN_IF_ERROR(tree_->Visit(listing_.images, [&](const Work& work) {
      const auto image = Decode(work, limits_);
      if (!image.ok()) {
        bad.push_back({listing_.images[work.index].path, std::string(image.status().message())});
        return true;
      }
      size_ = image->size;
      size_from_ = listing_.images[work.index].path;
      return false;
    }));
    if (!size_from_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("not one of the ", bad.size(),
                                                   " files is an image that can be read; the first: ",
                                                   bad.empty() ? "none" : bad[0].path + ": " + bad[0].why));
  }

  PackedShape shape() const override {
    return {.height = size_.height, .width = size_.width, .classes = listing_.classes, .splits = counts_};
  }

  absl::StatusOr<std::vector<BadFile>> CopyTo(ImageSink& sink, int threads) override {
    BoundedQueue<std::vector<Work>> queue(size_t{4} * threads);
    FirstError error;
    std::map<size_t, std::string> bad;  // sorted, whatever order the threads find them in
    std::mutex bad_mutex;
    const auto decode = [&](const Work& work) -> absl::Status {
      const TreeImage& target = listing_.images[work.index];
      const auto image = Decode(work, limits_);
      if (!image.ok()) {
        const std::lock_guard lock(bad_mutex);
        bad[work.index] = std::string(image.status().message());
        return absl::OkStatus();
      }
      if (!resizes_ && image->size != size_) return MixedSizes(target.path, image->size);
      return sink.Put(target.split, positions_[work.index], {target.label}, image->size, image->pixels);
    };
    const auto run = [&] {
      while (const auto batch = queue.Pop()) {
        for (const Work& work : *batch) {
          if (!error.failed()) error.Offer(decode(work));
        }
        if (error.failed()) queue.Close();
      }
    };
    {
      std::vector<std::jthread> pool;
      for (int i = 0; i < threads; ++i) pool.emplace_back(run);
      error.Offer(Feed(queue));
      queue.Close();
    }
    MT_RETURN_IF_ERROR(error.status());
    return LeaveOut(bad);
  }

 private:
  absl::Status Feed(BoundedQueue<std::vector<Work>>& queue) {
    std::vector<Work> batch;
    size_t bytes = 0;
    MT_RETURN_IF_ERROR(tree_->Visit(listing_.images, [&](Work work) {
      bytes += work.bytes.size();
      batch.push_back(std::move(work));
      if (batch.size() < kBatchImages && bytes < kBatchBytes) return true;
      bytes = 0;
      return queue.Push(std::exchange(batch, {}));
    }));
    queue.Push(std::move(batch));
    return absl::OkStatus();
  }

  absl::Status MixedSizes(const std::string& path, const ImageSize& size) const {
    return absl::InvalidArgumentError(absl::StrCat("images differ in size: ", size_from_, " is ",
                                                   SizeText(size_), ", ", path, " is ", SizeText(size),
                                                   "; give --resize HEIGHTxWIDTH"));
  }

  std::vector<BadFile> LeaveOut(const std::map<size_t, std::string>& bad) {
    std::vector<BadFile> files;
    for (const auto& [index, why] : bad) files.push_back({listing_.images[index].path, why});
    size_t index = 0;
    std::erase_if(listing_.images, [&](const TreeImage&) { return bad.count(index++) != 0; });
    Number();
    return files;
  }

  /// Gives each image its place in its split.
  void Number() {
    counts_.clear();
    positions_.clear();
    for (const TreeImage& image : listing_.images) positions_.push_back(counts_[image.split]++);
  }

  const std::unique_ptr<Tree> tree_;
  TreeListing listing_;
  std::vector<int64_t> positions_;         // of listing_.images in their splits
  std::map<std::string, int64_t> counts_;  // images of each split
  ImageSize size_;
  std::string size_from_;  // the image that gave size_
  const std::optional<ImageSize> resizes_;
  const DecodeLimits limits_;
};

/// One path taken apart; nothing when it is none of the tree's images.
struct Parts {
  std::string prefix, split, class_name, file, path;
};

absl::StatusOr<std::optional<Parts>> TakeApart(const std::string& path) {
  const std::vector<std::string> names = absl::StrSplit(path, '/');
  const auto split = std::find_if(names.begin(), names.end(), IsSplitFolder);
  const bool hidden = std::any_of(names.begin(), names.end(),
                                  [](const std::string& name) { return absl::StartsWith(name, "."); });
  const auto below = names.end() - split;  // the split itself counts
  if (hidden || below < 2) return std::nullopt;
  if (below == 2)
    return absl::InvalidArgumentError(absl::StrCat(path, " lies in no class folder; ", kExpected));
  if (below > 3)
    return absl::InvalidArgumentError(absl::StrCat(path, " lies deeper than split/class/image; ", kExpected));
  return Parts{absl::StrJoin(names.begin(), split, "/"), *split, split[1], split[2], path};
}

absl::Status CheckSplits(const std::vector<Parts>& parts) {
  std::set<std::string> splits;
  for (const Parts& part : parts) {
    splits.insert(part.split);
    if (part.prefix != parts[0].prefix) {
      return absl::InvalidArgumentError(
          absl::StrCat(parts[0].path, " and ", part.path, " belong to two trees; import one of them"));
    }
  }
  if (splits.count("train") == 0)
    return absl::InvalidArgumentError(absl::StrCat("no images to train on: ", kExpected));
  if (splits.count("test") != 0 && splits.count("val") != 0) {
    return absl::InvalidArgumentError(
        "it has test/ and val/ with classes; leave the one that is to be the test split");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TreeListing> ListTree(std::vector<std::string> paths) {
  std::vector<Parts> parts;
  for (const std::string& path : paths) {
    MT_ASSIGN_OR_RETURN(auto part, TakeApart(path));
    if (part) parts.push_back(*std::move(part));
  }
  MT_RETURN_IF_ERROR(CheckSplits(parts));
  std::sort(parts.begin(), parts.end(), [](const Parts& a, const Parts& b) {
    return std::tie(a.split, a.class_name, a.file) < std::tie(b.split, b.class_name, b.file);
  });
  TreeListing listing;
  std::set<std::string> classes;
  for (const Parts& part : parts) {
    if (part.split == "train") classes.insert(part.class_name);
  }
  listing.classes.assign(classes.begin(), classes.end());
  for (const Parts& part : parts) {
    const auto found = std::lower_bound(listing.classes.begin(), listing.classes.end(), part.class_name);
    if (found == listing.classes.end() || *found != part.class_name) {
      return absl::InvalidArgumentError(
          absl::StrCat(part.path, ": train/ has no class \"", part.class_name, "\""));
    }
    if (!listing.images.empty() && listing.images.back().path == part.path) {
      return absl::InvalidArgumentError(absl::StrCat(part.path, " is there twice"));
    }
    listing.images.push_back(
        {part.split == "val" ? "test" : part.split, found - listing.classes.begin(), part.path});
  }
  return listing;
}

bool LooksLikeImageFolder(const std::string& folder) {
  std::error_code error;
  for (const char* split : {"train", "test", "val"}) {
    if (fs::is_directory(fs::path(folder) / split, error)) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenImageFolder(const std::string& source,
                                                             const SourceOptions& options) {
  std::error_code error;
  std::unique_ptr<Tree> tree;
  if (fs::is_directory(source, error)) {
    tree = std::make_unique<FolderTree>(source);
  } else {
    tree = std::make_unique<TarTree>(source);
  }
  MT_ASSIGN_OR_RETURN(std::vector<std::string> paths, tree->Paths());
  auto listing = ListTree(std::move(paths));
  if (!listing.ok()) return Annotate(listing.status(), source);
  if (listing->images.front().split == "train")
    log::Warning(source, " has no test/ or val/: no test split is made");
  auto folder = std::make_unique<ImageFolder>(std::move(tree), *std::move(listing), options);
  if (absl::Status found = folder->FindSize(); !found.ok()) return Annotate(found, source);
  return folder;
}

}  // namespace mtrun::datasets

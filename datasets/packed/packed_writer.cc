#include "datasets/packed/packed_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "datasets/files/mapped_file.h"
#include "datasets/packed/safetensors.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

absl::Status WriteAt(int fd, absl::Span<const uint8_t> bytes, int64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "write " + path);
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += n;
  }
  return absl::OkStatus();
}

absl::Span<const uint8_t> AsBytes(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

absl::Status CheckShape(const PackedShape& shape) {
  if (shape.height < 1 || shape.width < 1 || shape.height > 65535 || shape.width > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("invalid image size ", shape.height, "x", shape.width));
  }
  if (shape.classes.empty() || shape.splits.empty())
    return absl::InvalidArgumentError("no classes or no images");
  MT_RETURN_IF_ERROR(CheckClassNames(shape.classes));
  for (const auto& [name, images] : shape.splits) {
    if (images < 1) return absl::InvalidArgumentError(absl::StrCat("split \"", name, "\" has no images"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t PackedShape::images() const {
  int64_t sum = 0;
  for (const auto& [name, count] : splits) sum += count;
  return sum;
}

/// Writes one shard file, open only from its first to its last image, to use few descriptors.
class PackedWriter::ShardWriter {
 public:
  ShardWriter(std::string path, int64_t images, const PackedShape& shape)
      : path_(std::move(path)),
        images_(images),
        image_bytes_(shape.image_bytes()),
        labels_(images),
        put_(images),
        missing_(images) {
    auto header = LayOutTensors(
        {{.name = "labels", .dtype = DType::kI64, .shape = {images}},
         {.name = "images", .dtype = DType::kU8, .shape = {images, shape.height, shape.width, 3}}},
        {{"format", "mtrun-packed"}});
    MT_CHECK(header.ok()) << header.status();
    header_ = *std::move(header);
  }

  int64_t images() const { return images_; }
  // Both without the mutex: call after the last Put, when no other thread is left.
  const std::vector<int64_t>& labels() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return labels_; }

  absl::Status Put(int64_t first, absl::Span<const int64_t> labels, absl::Span<const uint8_t> pixels) {
    MT_ASSIGN_OR_RETURN(const int fd, Descriptor());
    MT_RETURN_IF_ERROR(
        WriteAt(fd, pixels, header_.data_offset + header_.tensors[1].begin + first * image_bytes_, path_));
    const MutexLock lock(mutex_);
    std::copy(labels.begin(), labels.end(), labels_.begin() + first);
    std::fill_n(put_.begin() + first, labels.size(), true);
    missing_ -= static_cast<int64_t>(labels.size());
    MT_CHECK(missing_ >= 0) << path_ << ": an image was added twice";
    return missing_ == 0 ? Complete() : absl::OkStatus();
  }

  /// Passes the images that were put to `take`, one after the other, from the file's current location `path`.
  /// Call when no other thread is left.
  absl::Status ReadBack(const std::string& path,
                        const std::function<absl::Status(int64_t label, absl::Span<const uint8_t>)>& take)
      const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (std::find(put_.begin(), put_.end(), true) == put_.end()) return absl::OkStatus();  // has no file
    MT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const int64_t first = header_.data_offset + header_.tensors[1].begin;
    for (int64_t i = 0; i < images_; ++i) {
      if (!put_[i]) continue;
      MT_RETURN_IF_ERROR(take(labels_[i], file.bytes().subspan(first + i * image_bytes_, image_bytes_)));
    }
    return absl::OkStatus();
  }

  int64_t images_put() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::count(put_.begin(), put_.end(), true);
  }

  const ShardEntry& entry() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    MT_CHECK(missing_ == 0) << path_ << ": " << missing_ << " images were never added";
    return entry_;
  }

 private:
  absl::StatusOr<int> Descriptor() {
    const MutexLock lock(mutex_);
    if (!fd_.valid()) fd_ = UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd_.valid()) return ErrnoStatus(errno, "create " + path_);
    return fd_.get();
  }

  absl::Status Complete() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    MT_ASSIGN_OR_RETURN(const std::string head, EncodeSafetensorsHeader(header_));
    MT_RETURN_IF_ERROR(WriteAt(fd_.get(), AsBytes(head.data(), head.size()), 0, path_));
    MT_RETURN_IF_ERROR(
        WriteAt(fd_.get(), AsBytes(labels_.data(), labels_.size() * 8), header_.data_offset, path_));
    if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, "sync " + path_);
    fd_.Reset();
    entry_ = {.images = images(), .bytes = header_.data_offset + header_.data_bytes};
    MT_ASSIGN_OR_RETURN(entry_.sha256, Sha256OfFile(path_));
    return absl::OkStatus();
  }

  // Constant after construction.
  const std::string path_;
  const int64_t images_;
  const int64_t image_bytes_;
  SafetensorsHeader header_;
  Mutex mutex_;
  UniqueFd fd_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> labels_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> put_ ABSL_GUARDED_BY(mutex_);
  int64_t missing_ ABSL_GUARDED_BY(mutex_);
  ShardEntry entry_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<PackedWriter>> PackedWriter::Create(const std::string& destination,
                                                                   const PackedShape& shape,
                                                                   const Options& options) {
  MT_RETURN_IF_ERROR(CheckShape(shape));
  MT_ASSIGN_OR_RETURN(AtomicFolder folder, AtomicFolder::Create(destination, options.replace));
  MT_RETURN_IF_ERROR(folder.CheckRoom(shape.images() * (shape.image_bytes() + 8)));
  std::unique_ptr<PackedWriter> writer(new PackedWriter(std::move(folder), shape, options.shard_bytes));
  for (const auto& [split, images] : shape.splits) MT_RETURN_IF_ERROR(writer->MakeSplit(split, images));
  return writer;
}

PackedWriter::PackedWriter(AtomicFolder folder, const PackedShape& shape, int64_t shard_bytes)
    : folder_(std::move(folder)),
      shape_(shape),
      images_per_shard_(std::max<int64_t>(1, shard_bytes / (shape.image_bytes() + 8))) {}
PackedWriter::~PackedWriter() = default;

absl::Status PackedWriter::MakeSplit(const std::string& split, int64_t images) {
  MT_RETURN_IF_ERROR(MakeFolders(absl::StrCat(folder_.path(), "/", split)));
  std::vector<std::unique_ptr<ShardWriter>>& shards = splits_[split];
  for (int64_t first = 0; first < images; first += images_per_shard_) {
    shards.push_back(
        std::make_unique<ShardWriter>(absl::StrCat(folder_.path(), "/", ShardFile(split, shards.size())),
                                      std::min(images_per_shard_, images - first), shape_));
  }
  return absl::OkStatus();
}

absl::Status PackedWriter::Put(const std::string& split, int64_t first, absl::Span<const int64_t> labels,
                               absl::Span<const uint8_t> pixels) {
  const int64_t count = static_cast<int64_t>(labels.size());
  const auto found = splits_.find(split);
  MT_CHECK(found != splits_.end()) << "split " << split;
  MT_CHECK(first >= 0 && first + count <= shape_.splits.at(split)) << split << " " << first << "+" << count;
  MT_CHECK(static_cast<int64_t>(pixels.size()) == count * shape_.image_bytes()) << pixels.size() << " bytes";
  for (const int64_t label : labels)
    MT_CHECK(label >= 0 && label < static_cast<int64_t>(shape_.classes.size())) << label;
  for (int64_t done = 0; done < count;) {
    ShardWriter& shard = *found->second[(first + done) / images_per_shard_];
    const int64_t at = (first + done) % images_per_shard_;
    const int64_t n = std::min(count - done, shard.images() - at);
    MT_RETURN_IF_ERROR(shard.Put(at, labels.subspan(done, n),
                                 pixels.subspan(done * shape_.image_bytes(), n * shape_.image_bytes())));
    done += n;
  }
  return absl::OkStatus();
}

absl::Status PackedWriter::CloseGaps() {
  for (const auto& [split, images] : PackedShape(shape_).splits) {
    const std::string folder = absl::StrCat(folder_.path(), "/", split), old = folder + ".gaps";
    if (rename(folder.c_str(), old.c_str()) != 0) return ErrnoStatus(errno, "rename " + folder);
    const std::vector<std::unique_ptr<ShardWriter>> before = std::exchange(splits_[split], {});
    int64_t put = 0, next = 0;
    for (const auto& shard : before) put += shard->images_put();
    shape_.splits[split] = put;
    MT_RETURN_IF_ERROR(MakeSplit(split, put));
    for (size_t i = 0; i < before.size(); ++i) {
      const std::string path = absl::StrCat(old, "/", fs::path(ShardFile(split, i)).filename().string());
      const auto take = [&](int64_t label, absl::Span<const uint8_t> pixels) {
        return Put(split, next++, {&label, 1}, pixels);
      };
      MT_RETURN_IF_ERROR(before[i]->ReadBack(path, take));
      unlink(path.c_str());
    }
    rmdir(old.c_str());
    if (put > 0) continue;
    rmdir(folder.c_str());
    splits_.erase(split);
    shape_.splits.erase(split);
  }
  if (shape_.splits.count("train") > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("no images to train on");
}

absl::StatusOr<Index> PackedWriter::Finish() {
  Index index{.height = shape_.height,
              .width = shape_.width,
              .classes = shape_.classes,
              .orientation = shape_.orientation};
  for (const auto& [name, shards] : splits_) {
    SplitEntry& split = index.splits[name];
    split.class_counts.assign(shape_.classes.size(), 0);
    for (const auto& shard : shards) {
      split.shards.push_back(shard->entry());
      for (const int64_t label : shard->labels()) ++split.class_counts[label];
    }
  }
  MT_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder_.path(), "/", kIndexFile), EncodeIndex(index)));
  MT_RETURN_IF_ERROR(folder_.Publish());
  return index;
}

}  // namespace mtrun::datasets

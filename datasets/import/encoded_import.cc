#include "datasets/import/encoded_import.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "datasets/files/parallel.h"
#include "datasets/files/progress.h"
#include "datasets/import/encoded_plan.h"
#include "datasets/packed/atomic_folder.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/shard_state.h"

namespace mtrun::datasets {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShardsInMemory = 4;
constexpr size_t kPieceBytes = 1 << 20;

/// A shard while its images are converted.
struct OpenShard {
  const ShardPlan* plan = nullptr;
  std::vector<std::optional<Record>> records;
  std::vector<std::pair<int64_t, std::string>> bad;
  bool unread = false;  // another attempt may succeed in reading some of `bad`
  size_t missing = 0;
};

/// An image to convert.
struct Job {
  size_t shard = 0, image = 0;  // `image`: its index in the shard
};

std::string ShardPath(const std::string& root, const ShardPlan& plan) {
  return absl::StrCat(root, "/", ShardFile(plan.split, plan.number));
}
std::string StatePath(const std::string& shard_path) { return shard_path + ".state"; }

/// Returns the state of a shard that an earlier attempt finished.
std::optional<ShardState> FindFinished(const std::string& path) {
  const auto text = ReadFile(StatePath(path));
  if (!text.ok()) return std::nullopt;
  const auto state = DecodeShardState(*text);
  if (!state.ok()) return std::nullopt;
  std::error_code error;
  if (state->entry.images == 0) return *state;
  const auto bytes = fs::file_size(path, error);
  return !error && static_cast<int64_t>(bytes) == state->entry.bytes ? std::optional(*state) : std::nullopt;
}

void Widen(ShardState& state, const ImageSize& size) {
  if (state.entry.images++ == 0) state.smallest = state.largest = size;
  state.smallest = {std::min(state.smallest.height, size.height), std::min(state.smallest.width, size.width)};
  state.largest = {std::max(state.largest.height, size.height), std::max(state.largest.width, size.width)};
}

/// Returns true if the contents of the file are the cause; a disk error or a permission may change later.
bool IsOfTheFile(const absl::Status& why) { return absl::IsInvalidArgument(why) || absl::IsDataLoss(why); }

/// Writes pieces to a file that appears completely or not at all, counting and hashing them.
class PieceFile {
 public:
  explicit PieceFile(std::string path) : path_(std::move(path)), part_(path_ + ".part") {}
  ~PieceFile() {
    if (fd_.valid()) unlink(part_.c_str());
  }

  absl::Status Append(std::string_view piece) {
    if (!fd_.valid()) {
      fd_ = UniqueFd(open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      if (!fd_.valid()) return ErrnoStatus(errno, "create " + part_);
    }
    sha_.Update(piece);
    bytes_ += static_cast<int64_t>(piece.size());
    waiting_ += piece;
    return waiting_.size() < kPieceBytes ? absl::OkStatus() : Flush();
  }

  /// Completes the file and stores its size and SHA-256 in `entry`.
  absl::Status Finish(ShardEntry& entry) {
    MT_RETURN_IF_ERROR(Flush());
    if (fsync(fd_.get()) != 0) return ErrnoStatus(errno, "sync " + part_);
    if (rename(part_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, "rename " + part_);
    fd_.Reset();
    entry.bytes = bytes_;
    entry.sha256 = sha_.Hex();
    return absl::OkStatus();
  }

 private:
  absl::Status Flush() {
    const absl::Status written = WriteAll(fd_.get(), waiting_);
    waiting_.clear();
    return Annotate(written, "write " + part_);
  }

  const std::string path_, part_;
  UniqueFd fd_;
  Sha256 sha_;
  std::string waiting_;
  int64_t bytes_ = 0;
};

/// Writes a shard, then its state unless another attempt may do better. Frees the images while writing.
absl::StatusOr<ShardState> WriteShard(const std::string& path, const ImageFiles& files, OpenShard shard) {
  ShardState state;
  std::vector<int64_t> labels;
  std::vector<Record> records;
  for (size_t i = 0; i < shard.records.size(); ++i) {
    if (!shard.records[i]) continue;
    Widen(state, shard.records[i]->size);
    state.oriented += shard.records[i]->oriented ? 1 : 0;
    labels.push_back(files.listing.images[shard.plan->first + i].label);
    records.push_back(*std::move(shard.records[i]));
  }
  std::sort(shard.bad.begin(), shard.bad.end());
  state.bad = std::move(shard.bad);
  if (!records.empty()) {
    PieceFile file(path);
    MT_RETURN_IF_ERROR(file.Append(EncodeShardHead(labels, records)));
    for (Record& record : records) MT_RETURN_IF_ERROR(file.Append(std::exchange(record.bytes, {})));
    MT_RETURN_IF_ERROR(file.Finish(state.entry));
  }
  if (shard.unread) {
    std::error_code error;
    fs::remove(StatePath(path), error);
    return error ? ErrnoStatus(error.value(), "remove " + StatePath(path))
                 : absl::StatusOr<ShardState>(state);
  }
  MT_RETURN_IF_ERROR(WriteFileAtomically(StatePath(path), EncodeShardState(state)));
  return state;
}

/// Hands images to threads in order and writes each shard when its last image is complete.
class ShardMaker {
 public:
  ShardMaker(const ImageFiles& files, const ImportOptions& options, const std::string& root,
             std::vector<ShardPlan> plans, const std::atomic<bool>& cancelled)
      : files_(files),
        options_(options),
        root_(root),
        plans_(std::move(plans)),
        cancelled_(cancelled),
        states_(plans_.size()),
        open_(plans_.size()) {
    for (size_t i = 0; i < plans_.size(); ++i) {
      states_[i] = FindFinished(ShardPath(root_, plans_[i]));
      if (states_[i]) done_ += static_cast<int64_t>(plans_[i].count);
    }
  }

  /// Makes the missing shards. If it succeeds, all states exist afterwards.
  absl::Status Run() {
    if (done_ > 0) log::Info("continuing: ", done_.load(), " images are already imported");
    {
      const Progress progress(static_cast<int64_t>(files_.listing.images.size()), done_);
      std::vector<std::jthread> pool;
      for (int i = 0; i < options_.threads; ++i) {
        pool.emplace_back([this] {
          while (const auto job = Next()) {
            if (const absl::Status made = Make(*job); !made.ok()) Stop(made);
          }
        });
      }
    }
    return error_.status();
  }

  const std::vector<ShardPlan>& plans() const { return plans_; }
  /// REQUIRES: Run has returned.
  const ShardState& state(size_t shard) const ABSL_NO_THREAD_SAFETY_ANALYSIS { return *states_[shard]; }

 private:
  /// Waits while too many earlier shards are in memory. Returns nullopt at the end.
  std::optional<Job> Next() {
    const MutexLock lock(mutex_);
    for (;;) {
      if (cancelled_) error_.Offer(absl::CancelledError("stopped"));
      if (error_.failed()) return std::nullopt;
      while (shard_ < plans_.size() && (states_[shard_] || image_ == plans_[shard_].count)) {
        ++shard_;
        image_ = 0;
      }
      if (shard_ == plans_.size()) return std::nullopt;
      if (image_ > 0 || in_memory_ < kShardsInMemory) break;
      changed_.Wait(mutex_);
    }
    if (image_ == 0) {
      ++in_memory_;
      const ShardPlan& plan = plans_[shard_];
      open_[shard_] = {.plan = &plan, .records = {}, .bad = {}, .unread = false, .missing = plan.count};
      open_[shard_].records.resize(plan.count);
    }
    return Job{shard_, image_++};
  }

  absl::Status Make(const Job& job) {
    const size_t image = plans_[job.shard].first + job.image;
    auto record = ReadRecord(image);
    if (absl::IsAborted(record.status())) return record.status();  // the listing is invalid
    ++done_;
    OpenShard full;
    {
      const MutexLock lock(mutex_);
      OpenShard& shard = open_[job.shard];
      if (record.ok()) {
        shard.records[job.image] = *std::move(record);
      } else {
        shard.bad.emplace_back(static_cast<int64_t>(job.image), std::string(record.status().message()));
        shard.unread = shard.unread || !IsOfTheFile(record.status());
      }
      if (--shard.missing > 0) return absl::OkStatus();
      full = std::move(shard);
    }
    auto state = WriteShard(ShardPath(root_, plans_[job.shard]), files_, std::move(full));
    MT_RETURN_IF_ERROR(state.status());
    const MutexLock lock(mutex_);
    states_[job.shard] = *std::move(state);
    --in_memory_;
    changed_.NotifyAll();
    return absl::OkStatus();
  }

  absl::StatusOr<Record> ReadRecord(size_t image) const {
    MT_ASSIGN_OR_RETURN(std::string bytes, files_.Read(image));
    return MakeRecord(std::move(bytes), options_.rules);
  }

  void Stop(const absl::Status& status) {
    error_.Offer(status);
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  }

  // Constant after construction.
  const ImageFiles& files_;
  const ImportOptions& options_;
  const std::string root_;
  const std::vector<ShardPlan> plans_;
  const std::atomic<bool>& cancelled_;
  // Thread-safe themselves.
  std::atomic<int64_t> done_ = 0;
  FirstError error_;
  Mutex mutex_;
  Condition changed_;
  std::vector<std::optional<ShardState>> states_ ABSL_GUARDED_BY(mutex_);
  std::vector<OpenShard> open_ ABSL_GUARDED_BY(mutex_);
  size_t shard_ ABSL_GUARDED_BY(mutex_) = 0, image_ ABSL_GUARDED_BY(mutex_) = 0;  // the next job
  size_t in_memory_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Checks the free disk space if the rules keep all images as they are; otherwise sizes are unknown.
absl::Status CheckRoom(const AtomicFolder& folder, const ImageFiles& files, const ImageRules& rules) {
  if (rules.fixed_size() || rules.short_side > 0 || rules.max_side > 0) return absl::OkStatus();
  int64_t needed = 0;
  for (size_t i = 0; i < files.listing.images.size(); ++i) needed += files.file(i).bytes + 24;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder.path(), error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code is_gone;
    const uintmax_t bytes = entry->is_regular_file(is_gone) ? entry->file_size(is_gone) : 0;
    needed -= is_gone ? 0 : static_cast<int64_t>(bytes);
  }
  if (error) return ErrnoStatus(error.value(), "list " + folder.path());
  return folder.CheckRoom(needed);
}

std::vector<BadFile> ListBad(const ImageFiles& files, const ShardMaker& maker) {
  std::vector<BadFile> bad;
  for (size_t i = 0; i < maker.plans().size(); ++i) {
    for (const auto& [image, why] : maker.state(i).bad)
      bad.push_back({std::string(files.file(maker.plans()[i].first + static_cast<size_t>(image)).path), why});
  }
  return bad;
}

void AddShard(const ImageFiles& files, const ShardPlan& plan, const ShardState& state, Index& index) {
  if (state.entry.images == 0) return;
  const bool first = index.splits.empty();
  index.height = std::max(index.height, state.largest.height);
  index.width = std::max(index.width, state.largest.width);
  index.min_height = first ? state.smallest.height : std::min(index.min_height, state.smallest.height);
  index.min_width = first ? state.smallest.width : std::min(index.min_width, state.smallest.width);
  SplitEntry& split = index.splits[plan.split];
  split.class_counts.resize(index.classes.size());
  for (size_t i = 0; i < plan.count; ++i) ++split.class_counts[files.listing.images[plan.first + i].label];
  for (const auto& [image, why] : state.bad)
    --split.class_counts[files.listing.images[plan.first + static_cast<size_t>(image)].label];
  split.shards.push_back(state.entry);
}

/// Renumbers the shards' files within their splits, because shards without images are dropped. Removes the
/// states first, since they no longer match the files: no later attempt can continue from here.
absl::Status NumberShards(const std::string& root, const ShardMaker& maker) {
  std::map<std::string, size_t> next;  // by split
  for (size_t i = 0; i < maker.plans().size(); ++i) {
    const ShardPlan& plan = maker.plans()[i];
    const std::string path = ShardPath(root, plan);
    std::error_code error;
    fs::remove(StatePath(path), error);
    if (maker.state(i).entry.images == 0) continue;
    const std::string numbered = absl::StrCat(root, "/", ShardFile(plan.split, next[plan.split]++));
    if (numbered != path) fs::rename(path, numbered, error);
    if (error) return ErrnoStatus(error.value(), "rename " + path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImportReport> ImportEncoded(const ImageFiles& files, const ImportOptions& options,
                                           const std::atomic<bool>& cancelled) {
  MT_RETURN_IF_ERROR(CheckClassNames(files.listing.classes));
  const std::string key = ImportKey(files, options.rules, options.shard_bytes);
  MT_ASSIGN_OR_RETURN(AtomicFolder folder, AtomicFolder::Resume(options.destination, options.replace, key));
  MT_RETURN_IF_ERROR(CheckRoom(folder, files, options.rules));
  std::vector<ShardPlan> plans = PlanShards(files, options.shard_bytes);
  for (const ShardPlan& plan : plans)
    MT_RETURN_IF_ERROR(MakeFolders(absl::StrCat(folder.path(), "/", plan.split)));
  ShardMaker maker(files, options, folder.path(), std::move(plans), cancelled);
  MT_RETURN_IF_ERROR(maker.Run());
  ImportReport report;
  report.left_out = ListBad(files, maker);
  if (!report.left_out.empty() && !options.tree.skip_bad)
    return BadFilesError(options.source, report.left_out);
  report.index.encoded = true;
  report.index.classes = files.listing.classes;
  report.index.orientation = options.rules.orientation();
  for (size_t i = 0; i < maker.plans().size(); ++i) {
    AddShard(files, maker.plans()[i], maker.state(i), report.index);
    report.oriented += maker.state(i).oriented;
  }
  if (report.index.splits.count("train") == 0) return absl::InvalidArgumentError("no images to train on");
  const std::string index = EncodeIndex(report.index);
  MT_RETURN_IF_ERROR(NumberShards(folder.path(), maker));
  MT_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder.path(), "/", kIndexFile), index));
  MT_RETURN_IF_ERROR(folder.Publish());
  return report;
}

}  // namespace mtrun::datasets

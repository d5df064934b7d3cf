#include "datasets/packed/packed.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "datasets/files/mapped_file.h"
#include "datasets/packed/encoded_shard.h"
#include "datasets/packed/index.h"
#include "datasets/packed/safetensors.h"

namespace mtrun::datasets {
namespace {

/// The checked layout of a shard's file. Values are copied, because another process may write to the file.
struct Layout {
  const uint8_t* images = nullptr;
  std::vector<int32_t> labels = {};
  EncodedShard encoded = {};  // encoded sets only, which have no `images`
};

struct Shard {
  MappedFile file;
  std::vector<std::unique_ptr<const Layout>> layouts = {};  // newest last; old ones may still be read
};

/// Reads and checks `labels`: int64 [images].
absl::StatusOr<std::vector<int32_t>> ReadLabels(const uint8_t* labels, const ShardEntry& entry,
                                                int64_t classes) {
  std::vector<int32_t> read;
  read.reserve(static_cast<size_t>(entry.images));
  for (int64_t i = 0; i < entry.images; ++i) {
    int64_t label = 0;
    std::memcpy(&label, labels + i * 8, 8);  // other programs may write it unaligned
    if (label < 0 || label >= classes) {
      return absl::DataLossError(
          absl::StrCat("label ", label, " of image ", i, " is out of range for ", classes, " classes"));
    }
    read.push_back(static_cast<int32_t>(label));
  }
  return read;
}

int64_t ClassesOf(const Index& index) { return static_cast<int64_t>(index.classes.size()); }

absl::StatusOr<Layout> FindPixels(absl::Span<const uint8_t> bytes, const Index& index,
                                  const ShardEntry& entry) {
  MT_ASSIGN_OR_RETURN(const SafetensorsHeader header, ParseSafetensorsHeader(bytes));
  MT_ASSIGN_OR_RETURN(const TensorInfo* images,
                      FindTensor(header, "images", DType::kU8, {entry.images, index.height, index.width, 3}));
  MT_ASSIGN_OR_RETURN(const TensorInfo* labels, FindTensor(header, "labels", DType::kI64, {entry.images}));
  Layout layout{.images = TensorBytes(bytes, header, *images).data()};
  MT_ASSIGN_OR_RETURN(layout.labels,
                      ReadLabels(TensorBytes(bytes, header, *labels).data(), entry, ClassesOf(index)));
  return layout;
}

absl::StatusOr<Layout> FindRecords(absl::Span<const uint8_t> bytes, const Index& index,
                                   const ShardEntry& entry) {
  Layout layout;
  MT_ASSIGN_OR_RETURN(layout.encoded, ParseEncodedShard(bytes, entry.images));
  for (int64_t i = 0; i < entry.images; ++i) {
    const ImageSize size = layout.encoded.size(i);
    const bool fits = size.height >= index.min_height && size.height <= index.height &&
                      size.width >= index.min_width && size.width <= index.width;
    if (!fits)
      return absl::DataLossError(
          absl::StrCat("image ", i, " is ", SizeText(size), ", outside the range of sizes in the index"));
  }
  MT_ASSIGN_OR_RETURN(layout.labels, ReadLabels(layout.encoded.labels, entry, ClassesOf(index)));
  return layout;
}

/// Adds the layout of the currently mapped file.
absl::Status AddLayout(Shard& shard, const Index& index, const ShardEntry& entry) {
  const absl::Span<const uint8_t> bytes = shard.file.bytes();
  absl::StatusOr<Layout> found =
      index.encoded ? FindRecords(bytes, index, entry) : FindPixels(bytes, index, entry);
  MT_RETURN_IF_ERROR(found.status());
  shard.layouts.push_back(std::make_unique<const Layout>(*std::move(found)));
  return absl::OkStatus();
}

absl::StatusOr<Shard> OpenShard(const std::string& path, const Index& index, const ShardEntry& entry,
                                bool verify) {
  MT_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  Shard shard{.file = std::move(file)};
  const absl::Span<const uint8_t> bytes = shard.file.bytes();
  if (static_cast<int64_t>(bytes.size()) != entry.bytes) {
    return absl::DataLossError(
        absl::StrCat("it has ", bytes.size(), " bytes, but the index says ", entry.bytes));
  }
  if (verify && Sha256Hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) != entry.sha256) {
    return absl::DataLossError("its SHA-256 differs from the index");
  }
  MT_RETURN_IF_ERROR(AddLayout(shard, index, entry));
  return shard;
}

/// Returns how to get a split that sources often lack; "" for others.
std::string WaysToSplit(const std::string& split) {
  if (split != "test" && split != "val") return "";
  return absl::StrCat("; import it again with --", split,
                      "_share 0.2, or give the trainer --validation_share 0.2: a fifth of each class");
}

}  // namespace

struct PackedSplit::State {
  std::string root, name;
  Index index;
  std::string digest;
  std::vector<int64_t> firsts;                   // index of each shard's first image in the split
  std::vector<std::atomic<const Layout*>> here;  // for readers; null: not added
  std::atomic<size_t> missing = 0;
  std::atomic<int64_t> replaced = 0;
  Mender mender = nullptr;
  bool comes_and_goes = false;
  int64_t size = 0;  // images in all shards
  size_t image_bytes = 0;
  std::optional<std::vector<int64_t>> ids = {};  // original ids of a restricted split; nullopt: all
  mutable Mutex mutex;
  std::vector<std::shared_ptr<Shard>> shards ABSL_GUARDED_BY(mutex);

  int64_t Find(int64_t i) const { return ids ? ids->at(static_cast<size_t>(i)) : i; }
  size_t NumberOf(int64_t i) const {
    MT_CHECK(i >= 0 && i < size) << "image " << i << " of " << size;
    return static_cast<size_t>(std::upper_bound(firsts.begin(), firsts.end(), i) - firsts.begin()) - 1;
  }
  std::string PathOf(size_t number) const { return absl::StrCat(root, "/", ShardFile(name, number)); }
  const ShardEntry& EntryOf(size_t number) const { return index.splits.at(name).shards.at(number); }
  bool Has(size_t number) const { return here[number].load(std::memory_order_acquire) != nullptr; }
  const Layout& ShardAt(size_t number) const {
    const Layout* const shard = here[number].load(std::memory_order_acquire);
    MT_CHECK(shard != nullptr) << "shard " << number << " of " << name << " is not available";
    return *shard;
  }
  void Publish(size_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    here[number].store(shards[number]->layouts.back().get(), std::memory_order_release);
  }

  absl::Status Add(size_t number, bool verify) {
    MT_CHECK(number < here.size()) << number << " of " << here.size();
    if (Has(number)) return absl::OkStatus();
    const std::string path = PathOf(number);
    auto shard = OpenShard(path, index, EntryOf(number), verify);
    if (!shard.ok()) return Annotate(absl::DataLossError(shard.status().message()), path);
    const MutexLock lock(mutex);
    shards[number] = std::make_shared<Shard>(*std::move(shard));
    Publish(number);
    --missing;
    return absl::OkStatus();
  }

  absl::Status Replace(size_t number) {
    const MutexLock lock(mutex);
    if (shards.at(number) == nullptr) return absl::OkStatus();
    const std::string path = PathOf(number);
    absl::Status done = shards[number]->file.Replace(path);
    // Values copied before may come from a file that another process had overwritten.
    if (done.ok()) done = Annotate(AddLayout(*shards[number], index, EntryOf(number)), path);
    if (!done.ok()) return absl::DataLossError(done.message());
    Publish(number);
    // After Publish: a reader that sees the new count reads the new copy.
    replaced.fetch_add(1, std::memory_order_release);
    return absl::OkStatus();
  }

  bool Drop(size_t number) {
    const MutexLock lock(mutex);
    std::shared_ptr<Shard>& shard = shards.at(number);
    if (shard == nullptr) return true;
    if (shard.use_count() > 1) return false;
    here[number].store(nullptr, std::memory_order_release);
    shard.reset();
    ++missing;
    return true;
  }

  std::optional<Held> Hold(const std::set<size_t>& numbers) const {
    Held held;
    const MutexLock lock(mutex);
    for (const size_t number : numbers) {
      if (shards[number] == nullptr) return std::nullopt;
      held.push_back(shards[number]);
    }
    return held;
  }
};

absl::StatusOr<std::unique_ptr<PackedSplit::State>> PackedSplit::ReadState(const std::string& root,
                                                                           const std::string& split) {
  auto state = std::make_unique<State>();
  state->root = root;
  state->name = split;
  MT_ASSIGN_OR_RETURN(state->index, ReadIndex(root));
  const auto found = state->index.splits.find(split);
  if (found == state->index.splits.end()) {
    return absl::NotFoundError(
        absl::StrCat(root, " has no split \"", split, "\"; it has: ",
                     absl::StrJoin(state->index.splits, ", ",
                                   [](std::string* out, const auto& entry) { out->append(entry.first); }),
                     WaysToSplit(split)));
  }
  state->digest = IndexDigest(state->index);
  state->image_bytes = size_t{3} * state->index.height * state->index.width;
  for (const ShardEntry& entry : found->second.shards) {
    state->firsts.push_back(state->size);
    state->size += entry.images;
  }
  const size_t shards = state->firsts.size();
  state->here = std::vector<std::atomic<const Layout*>>(shards);
  state->missing = shards;
  const MutexLock lock(state->mutex);
  state->shards.resize(shards);
  return state;
}

absl::StatusOr<PackedSplit> PackedSplit::Open(const std::string& root, const std::string& split,
                                              bool verify) {
  MT_ASSIGN_OR_RETURN(std::unique_ptr<State> state, ReadState(root, split));
  for (size_t number = 0; number < state->here.size(); ++number)
    MT_RETURN_IF_ERROR(state->Add(number, verify));
  return PackedSplit(std::move(state));
}

absl::StatusOr<PackedSplit> PackedSplit::OpenIndex(const std::string& root, const std::string& split) {
  MT_ASSIGN_OR_RETURN(std::unique_ptr<State> state, ReadState(root, split));
  state->comes_and_goes = true;
  return PackedSplit(std::move(state));
}

absl::Status PackedSplit::Add(size_t number) { return state_->Add(number, /*verify=*/false); }

absl::Status PackedSplit::Replace(size_t number) { return state_->Replace(number); }

int64_t PackedSplit::replaced() const { return state_->replaced.load(std::memory_order_acquire); }

void PackedSplit::set_mender(Mender mender) { state_->mender = std::move(mender); }

absl::StatusOr<bool> PackedSplit::Mend(absl::Span<const int64_t> ids) const {
  return state_->mender ? state_->mender(ids) : absl::StatusOr<bool>(false);
}

bool PackedSplit::Drop(size_t number) {
  MT_CHECK(state_->comes_and_goes) << name() << " was opened as a whole";
  return state_->Drop(number);
}

std::optional<PackedSplit::Held> PackedSplit::Hold(absl::Span<const int64_t> ids) const {
  if (!state_->comes_and_goes) return Held();
  std::set<size_t> numbers;
  for (const int64_t id : ids) numbers.insert(shard_of(id));
  return state_->Hold(numbers);
}

PackedSplit::PackedSplit(std::unique_ptr<State> state) : state_(std::move(state)) {}
PackedSplit::PackedSplit(PackedSplit&&) noexcept = default;
PackedSplit& PackedSplit::operator=(PackedSplit&&) noexcept = default;
PackedSplit::~PackedSplit() = default;

PackedSplit PackedSplit::Restricted(std::vector<int64_t> ids) && {
  for (int64_t& id : ids) id = state_->Find(id);
  MT_CHECK(std::is_sorted(ids.begin(), ids.end())) << "images in another order";
  state_->ids = std::move(ids);
  return std::move(*this);
}

int64_t PackedSplit::size() const {
  return state_->ids ? static_cast<int64_t>(state_->ids->size()) : state_->size;
}
std::vector<int64_t> PackedSplit::shard_counts() const {
  // Returns the number of this split's images before the original image i.
  const auto before = [this](int64_t i) {
    if (!state_->ids) return i;
    return std::lower_bound(state_->ids->begin(), state_->ids->end(), i) - state_->ids->begin();
  };
  std::vector<int64_t> counts;
  const size_t shards = state_->here.size();
  for (size_t i = 0; i < shards; ++i) {
    const bool last = i + 1 == shards;
    const int64_t end = last ? state_->size : state_->firsts[i + 1];
    counts.push_back(before(end) - before(state_->firsts[i]));
  }
  return counts;
}

void PackedSplit::WillNeed(int64_t i) const {
  if (encoded()) {
    const std::string_view bytes = record(i);
    MappedFile::WillNeed({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  } else {
    MappedFile::WillNeed(image(i));
  }
}

const std::string& PackedSplit::name() const { return state_->name; }
size_t PackedSplit::shard_of(int64_t i) const { return state_->NumberOf(state_->Find(i)); }
bool PackedSplit::has(int64_t i) const { return state_->Has(shard_of(i)); }
bool PackedSplit::has_all() const { return state_->missing == 0; }

int PackedSplit::height() const { return state_->index.height; }
int PackedSplit::width() const { return state_->index.width; }
const std::vector<std::string>& PackedSplit::class_names() const { return state_->index.classes; }
std::vector<int64_t> PackedSplit::class_counts() const {
  if (!state_->ids) return state_->index.splits.at(state_->name).class_counts;
  std::vector<int64_t> counts(class_names().size());
  for (int64_t i = 0; i < size(); ++i) ++counts[static_cast<size_t>(label(i))];
  return counts;
}
const std::string& PackedSplit::orientation() const { return state_->index.orientation; }
const std::string& PackedSplit::digest() const { return state_->digest; }

bool PackedSplit::encoded() const { return state_->index.encoded; }
bool PackedSplit::varies() const { return state_->index.varies(); }

std::string_view PackedSplit::record(int64_t i) const {
  MT_CHECK(encoded());
  i = state_->Find(i);
  const size_t number = state_->NumberOf(i);
  return state_->ShardAt(number).encoded.record(i - state_->firsts[number]);
}

ImageSize PackedSplit::image_size(int64_t i) const {
  if (!encoded()) return {height(), width()};
  i = state_->Find(i);
  const size_t number = state_->NumberOf(i);
  return state_->ShardAt(number).encoded.size(i - state_->firsts[number]);
}

DecodeLimits PackedSplit::decode_limits(int64_t i) const {
  return {.max_pixels = image_size(i).pixels(), .source = "its size in the shard"};
}

absl::Span<const uint8_t> PackedSplit::image(int64_t i) const {
  MT_CHECK(!encoded());
  i = state_->Find(i);
  const size_t number = state_->NumberOf(i);
  return {
      state_->ShardAt(number).images + static_cast<size_t>(i - state_->firsts[number]) * state_->image_bytes,
      state_->image_bytes};
}

int64_t PackedSplit::label(int64_t i) const {
  i = state_->Find(i);
  const size_t number = state_->NumberOf(i);
  return state_->ShardAt(number).labels[static_cast<size_t>(i - state_->firsts[number])];
}

}  // namespace mtrun::datasets

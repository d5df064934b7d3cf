#include "trainers/program/data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {

using datasets::PackedSplit;

namespace {

using OpenSplit = absl::StatusOr<PackedSplit> (*)(const std::string& folder, const std::string& name);

absl::StatusOr<PackedSplit> OpenWhole(const std::string& folder, const std::string& name) {
  return PackedSplit::Open(folder, name);
}

/// Opens a split that must contain images.
absl::StatusOr<PackedSplit> OpenFilled(const std::string& folder, const std::string& name, OpenSplit open) {
  MT_ASSIGN_OR_RETURN(PackedSplit split, open(folder, name));
  if (split.size() == 0)
    return absl::InvalidArgumentError(absl::StrCat(folder, ": the ", name, " split contains no images"));
  return split;
}

/// Returns nullopt if the set does not have this split.
absl::StatusOr<std::optional<PackedSplit>> OpenIfThere(const std::string& folder, const std::string& name,
                                                       OpenSplit open) {
  absl::StatusOr<PackedSplit> split = OpenFilled(folder, name, open);
  if (absl::IsNotFound(split.status())) return std::optional<PackedSplit>();
  MT_RETURN_IF_ERROR(split.status());
  return std::optional<PackedSplit>(*std::move(split));
}

/// Opens the splits. Without val and test, the training images are opened again for evaluations.
absl::StatusOr<RunData> OpenSplits(const std::string& folder, bool needs_test, double validation_share,
                                   OpenSplit open) {
  MT_ASSIGN_OR_RETURN(PackedSplit train, OpenFilled(folder, "train", open));
  MT_ASSIGN_OR_RETURN(std::optional<PackedSplit> val, OpenIfThere(folder, "val", open));
  if (validation_share > 0) {
    Shares shares = KeepBack(train, validation_share);
    if (shares.kept_back.empty() || shares.others.empty())
      return absl::InvalidArgumentError(absl::StrCat("--validation_share ", validation_share, ": ", folder,
                                                     " has too few training images for it"));
    MT_ASSIGN_OR_RETURN(PackedSplit again, OpenFilled(folder, "train", open));
    val = std::move(again).Restricted(std::move(shares.kept_back));
    train = std::move(train).Restricted(std::move(shares.others));
  }
  MT_ASSIGN_OR_RETURN(std::optional<PackedSplit> test, OpenIfThere(folder, "test", open));
  if (val && test) return RunData{std::move(train), *std::move(val), *std::move(test)};
  if (test || val) return RunData{std::move(train), test ? *std::move(test) : *std::move(val)};
  if (needs_test) return open(folder, "test").status();
  MT_ASSIGN_OR_RETURN(PackedSplit again, OpenFilled(folder, "train", open));
  return RunData{std::move(train), std::move(again)};
}

}  // namespace

ImageShape ShapeOf(const PackedSplit& split) {
  return {split.height(), split.width(), split.varies(), !split.encoded(), split.orientation()};
}

ImageShape RunData::shape() const {
  ImageShape shape = ShapeOf(train);
  for (const PackedSplit* split : {&test, final_test ? &*final_test : &test}) {
    shape.height = std::max(shape.height, split->height());
    shape.width = std::max(shape.width, split->width());
    shape.varies = shape.varies || split->varies();
  }
  return shape;
}

std::vector<PackedSplit*> RunData::splits() {
  std::vector<PackedSplit*> all{&train, &test};
  if (final_test) all.push_back(&*final_test);
  return all;
}

Shares KeepBack(const PackedSplit& split, double share) {
  std::map<int64_t, int64_t> seen, all;
  for (int64_t i = 0; i < split.size(); ++i) ++all[split.label(i)];
  // Returns how many of a class's first `first` images are kept back: evenly, and round(n share) of all n.
  const auto taken = [&](int64_t label, int64_t first) {
    const int64_t n = all[label];
    int64_t wanted = std::llround(static_cast<double>(n) * share);
    if (n >= 2) wanted = std::clamp<int64_t>(wanted, 1, n - 1);
    return first * wanted / n;
  };
  Shares shares;
  for (int64_t i = 0; i < split.size(); ++i) {
    const int64_t label = split.label(i), before = seen[label]++;
    const bool kept = taken(label, before + 1) > taken(label, before);
    (kept ? shares.kept_back : shares.others).push_back(i);
  }
  return shares;
}

absl::StatusOr<PackedSplit> OpenTest(const std::string& folder) {
  for (const char* name : {"test", "val"}) {
    MT_ASSIGN_OR_RETURN(std::optional<PackedSplit> split, OpenIfThere(folder, name, OpenWhole));
    if (split) return *std::move(split);
  }
  return PackedSplit::Open(folder, "test").status();  // the error lists the splits that exist
}

absl::StatusOr<RunData> OpenData(const std::string& folder, bool needs_test, double validation_share) {
  return OpenSplits(folder, needs_test, validation_share, OpenWhole);
}

absl::StatusOr<RunData> OpenArrivingData(const std::string& folder, bool needs_test) {
  MT_ASSIGN_OR_RETURN(RunData data,
                      OpenSplits(folder, needs_test, /*validation_share=*/0, PackedSplit::OpenIndex));
  data.arrives = true;
  return data;
}

absl::Status CheckOrder(datasets::Shuffle shuffle, const PackedSplit& train) {
  constexpr size_t kMaxShards = 8192;  // 12 digits and a comma for each fit on a line of the ledger
  const size_t shards = train.shard_counts().size();
  if (!IsStreamed(shuffle) || shards <= kMaxShards) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--shuffle streams: the training images are in ", shards,
                                                 " shards, but at most ", kMaxShards,
                                                 " can be streamed; import them with a larger --shard_mib"));
}

}  // namespace mtrun::trainers

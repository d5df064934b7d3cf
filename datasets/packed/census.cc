#include "datasets/packed/census.h"

#include <sys/mman.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/files/mapped_file.h"
#include "datasets/images/image_file.h"
#include "datasets/packed/encoded_shard.h"

namespace mtrun::datasets {
namespace {

FormatCount& CountOf(Census& census, std::string_view record) {
  // FindImageKind reads only the first bytes, so one page of each record is read.
  const ImageKind kind = FindImageKind(record);
  return kind == ImageKind::kJpeg ? census.jpeg : kind == ImageKind::kPng ? census.png : census.other;
}

absl::Status CountShard(const std::string& path, const ShardEntry& entry, Census& census,
                        std::vector<int64_t>& bytes) {
  MT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::Span<const uint8_t> all = file.bytes();
  // Without this advice, the kernel's readahead reads nearly the whole set. A refusal costs only time.
  if (!all.empty()) madvise(const_cast<uint8_t*>(all.data()), all.size(), MADV_RANDOM);
  const auto shard = ParseEncodedShard(all, entry.images);
  if (!shard.ok()) return Annotate(absl::DataLossError(shard.status().message()), path);
  for (int64_t i = 0; i < shard->images; ++i) {
    const ImageSize size = shard->size(i);
    const std::string_view record = shard->record(i);
    const auto length = static_cast<int64_t>(record.size());
    ++census.by_side[SideBin(std::min(size.height, size.width))];
    FormatCount& count = CountOf(census, record);
    ++count.images;
    count.bytes += length;
    bytes.push_back(length);
  }
  return absl::OkStatus();
}

}  // namespace

size_t SideBin(int side) {
  MT_CHECK(side >= kSideBins.front()) << side;
  const auto after = std::upper_bound(kSideBins.begin(), kSideBins.end(), side);
  return static_cast<size_t>(after - kSideBins.begin()) - 1;
}

std::string SideBinName(size_t bin) {
  if (bin == 0) return absl::StrCat("below ", kSideBins[1]);
  if (bin + 1 == kSideBins.size()) return absl::StrCat(kSideBins[bin], " or more");
  return absl::StrCat(kSideBins[bin], " to ", kSideBins[bin + 1] - 1);
}

absl::StatusOr<Census> TakeCensus(const std::string& root, const Index& index) {
  MT_CHECK(index.encoded);
  Census census;
  std::vector<int64_t> bytes;
  // Not reserved from the index: a damaged index may claim any number.
  for (const auto& [name, split] : index.splits) {
    for (size_t i = 0; i < split.shards.size(); ++i)
      MT_RETURN_IF_ERROR(
          CountShard(absl::StrCat(root, "/", ShardFile(name, i)), split.shards[i], census, bytes));
  }
  if (bytes.empty()) return census;
  const auto median = bytes.begin() + static_cast<std::ptrdiff_t>((bytes.size() - 1) / 2);
  std::nth_element(bytes.begin(), median, bytes.end());
  census.median = *median;
  census.smallest = *std::min_element(bytes.begin(), median + 1);
  census.largest = *std::max_element(median, bytes.end());
  return census;
}

}  // namespace mtrun::datasets

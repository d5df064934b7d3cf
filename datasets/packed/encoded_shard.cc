#include "datasets/packed/encoded_shard.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "datasets/packed/safetensors.h"

namespace mtrun::datasets {
namespace {

/// Reads an element at any address: other programs may write unaligned data.
template <typename T>
T At(const uint8_t* data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

template <typename T>
void Append(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

absl::Status CheckOffsets(const EncodedShard& shard) {
  int64_t before = At<int64_t>(shard.offsets, 0);
  if (before != 0) return absl::DataLossError("the offsets do not begin at 0");
  for (int64_t i = 1; i <= shard.images; ++i) {
    const auto offset = At<int64_t>(shard.offsets, i);
    if (offset <= before || offset > shard.length)
      return absl::DataLossError(
          absl::StrCat("image ", i - 1, " ends at byte ", offset, ", which is impossible"));
    before = offset;
  }
  return before == shard.length ? absl::OkStatus() : absl::DataLossError("bytes follow the last image");
}

/// Reads and checks `sizes`: int32 [images, 2], height and width.
absl::Status ReadSizes(const uint8_t* sizes, EncodedShard& shard) {
  static_assert(kMaxImageSide <= UINT16_MAX);
  shard.sizes.reserve(static_cast<size_t>(shard.images));
  for (int64_t i = 0; i < shard.images; ++i) {
    const ImageSize size{At<int32_t>(sizes, 2 * i), At<int32_t>(sizes, 2 * i + 1)};
    const bool fits =
        size.height >= 1 && size.width >= 1 && size.height <= kMaxImageSide && size.width <= kMaxImageSide;
    if (!fits)
      return absl::DataLossError(absl::StrCat("image ", i, " has the impossible size ", SizeText(size)));
    shard.sizes.push_back({static_cast<uint16_t>(size.height), static_cast<uint16_t>(size.width)});
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeShardHead(absl::Span<const int64_t> labels, const std::vector<Record>& records) {
  MT_CHECK(!records.empty() && labels.size() == records.size()) << labels.size();
  const auto n = static_cast<int64_t>(records.size());
  int64_t end = 0;
  std::string offsets, sizes;
  Append(offsets, end);
  for (const Record& record : records) {
    end += static_cast<int64_t>(record.bytes.size());
    Append(offsets, end);
    Append(sizes, int32_t{record.size.height});
    Append(sizes, int32_t{record.size.width});
  }
  const auto header = LayOutTensors({{.name = "labels", .dtype = DType::kI64, .shape = {n}},
                                     {.name = "offsets", .dtype = DType::kI64, .shape = {n + 1}},
                                     {.name = "sizes", .dtype = DType::kI32, .shape = {n, 2}},
                                     {.name = "bytes", .dtype = DType::kU8, .shape = {end}}},
                                    {{"format", "mtrun-packed"}});
  MT_CHECK(header.ok()) << header.status();
  const auto encoded = EncodeSafetensorsHeader(*header);
  MT_CHECK(encoded.ok()) << encoded.status();
  std::string head = *encoded;
  for (const int64_t label : labels) Append(head, label);
  return head + offsets + sizes;
}

int64_t EncodedShard::label(int64_t i) const { return At<int64_t>(labels, i); }

ImageSize EncodedShard::size(int64_t i) const {
  const Sides& sides = sizes.at(static_cast<size_t>(i));
  return {sides.height, sides.width};
}

std::string_view EncodedShard::record(int64_t i) const {
  const auto begin = At<int64_t>(offsets, i), end = At<int64_t>(offsets, i + 1);
  if (begin < 0 || end <= begin || end > length) return {};
  return {reinterpret_cast<const char*>(bytes + begin), static_cast<size_t>(end - begin)};
}

absl::StatusOr<EncodedShard> ParseEncodedShard(absl::Span<const uint8_t> file, int64_t images) {
  MT_ASSIGN_OR_RETURN(const SafetensorsHeader header, ParseSafetensorsHeader(file));
  MT_ASSIGN_OR_RETURN(const TensorInfo* labels, FindTensor(header, "labels", DType::kI64, {images}));
  MT_ASSIGN_OR_RETURN(const TensorInfo* offsets, FindTensor(header, "offsets", DType::kI64, {images + 1}));
  MT_ASSIGN_OR_RETURN(const TensorInfo* sizes, FindTensor(header, "sizes", DType::kI32, {images, 2}));
  const TensorInfo* bytes = header.Find("bytes");
  if (bytes == nullptr || bytes->dtype != DType::kU8 || bytes->shape.size() != 1)
    return absl::DataLossError("tensor \"bytes\" is not U8 of one dimension");
  EncodedShard shard{.images = images,
                     .labels = TensorBytes(file, header, *labels).data(),
                     .offsets = TensorBytes(file, header, *offsets).data(),
                     .bytes = TensorBytes(file, header, *bytes).data(),
                     .length = bytes->bytes(),
                     .sizes = {}};
  MT_RETURN_IF_ERROR(CheckOffsets(shard));
  MT_RETURN_IF_ERROR(ReadSizes(TensorBytes(file, header, *sizes).data(), shard));
  return shard;
}

}  // namespace mtrun::datasets

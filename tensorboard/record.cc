#include "tensorboard/record.h"

#include <cstring>

#include "tensorboard/crc32c.h"
#include "tensorboard/wire.h"

namespace mtrun::tensorboard {
namespace {

constexpr size_t kLengthBytes = sizeof(uint64_t), kSumBytes = sizeof(uint32_t);
constexpr size_t kHeadBytes = kLengthBytes + kSumBytes;

template <typename Number>
Number NumberAt(std::string_view bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

}  // namespace

void AppendFrame(std::string& out, std::string_view record) {
  const size_t begin = out.size();
  wire::AppendFixed(out, static_cast<uint64_t>(record.size()));
  wire::AppendFixed(out, MaskedCrc32c(std::string_view(out).substr(begin, kLengthBytes)));
  out += record;
  wire::AppendFixed(out, MaskedCrc32c(record));
}

Frame ReadFrame(std::string_view bytes) {
  if (bytes.size() < kHeadBytes) return {};
  const auto length = NumberAt<uint64_t>(bytes, 0);
  const bool sound = NumberAt<uint32_t>(bytes, kLengthBytes) == MaskedCrc32c(bytes.substr(0, kLengthBytes));
  if (!sound || length > kMostRecordBytes) return {.state = Frame::State::kDamaged};
  const size_t size = kHeadBytes + length + kSumBytes;
  if (bytes.size() < size) return {};
  const std::string_view record = bytes.substr(kHeadBytes, length);
  if (NumberAt<uint32_t>(bytes, kHeadBytes + length) != MaskedCrc32c(record))
    return {.state = Frame::State::kDamaged};
  return {.state = Frame::State::kWhole, .record = record, .size = size};
}

}  // namespace mtrun::tensorboard

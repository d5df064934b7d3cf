#include "launcher/store/store_requests.h"

#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::launcher {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers go as PyTorch copies them");

/// The fields of each command, in order: k key, v value, i int64, u uint32, n count of the following fields.
constexpr const char* kShapes[] = {"u",  "kv",  "kvv", "k", "ki", "nk", "nk", "", "k", "kv",
                                   "nk", "nkv", "",    "u", "kv", "k",  "k",  "", "ki"};
static_assert(std::size(kShapes) == static_cast<size_t>(StoreCommand::kBarrier) + 1);

absl::Status TooMuch(const char* what, uint64_t size, uint64_t most) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", size, ", more than ", most));
}

}  // namespace

absl::StatusOr<std::optional<StoreRequest>> StoreParser::Next() {
  if (fields_ == nullptr) {
    if (at_ == bytes_.size()) return std::nullopt;
    MT_RETURN_IF_ERROR(Begin(static_cast<uint8_t>(bytes_[at_])));
    ++at_;
  }
  while (*next_ != '\0') {
    MT_ASSIGN_OR_RETURN(const bool whole, ReadField(*next_));
    if (!whole) {
      bytes_.erase(0, std::exchange(at_, 0));
      return std::nullopt;
    }
    ++next_;
    if (*next_ == '\0' && rounds_ > 1) {
      --rounds_;
      next_ = loop_;
    }
  }
  MT_RETURN_IF_ERROR(Finish());
  return std::exchange(request_, {});
}

absl::Status StoreParser::Begin(uint8_t command) {
  if (command >= std::size(kShapes))
    return absl::InvalidArgumentError(absl::StrCat("command ", command, " is not one of a TCPStore"));
  const bool first = command == static_cast<uint8_t>(StoreCommand::kValidate);
  if (first == validated_)
    return absl::InvalidArgumentError(first ? "a second greeting" : "a command before the greeting");
  request_.command = static_cast<StoreCommand>(command);
  fields_ = next_ = kShapes[command];
  rounds_ = request_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status StoreParser::Finish() {
  fields_ = nullptr;
  request_bytes_ = 0;
  if (at_ == bytes_.size() || at_ > kMaxValueBytes) bytes_.erase(0, std::exchange(at_, 0));
  if (request_.command != StoreCommand::kValidate) return absl::OkStatus();
  if (static_cast<uint32_t>(request_.number) != kMagic)
    return absl::InvalidArgumentError("a greeting that is not a TCPStore's");
  validated_ = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> StoreParser::ReadField(char field) {
  switch (field) {
    case 'k':
      return ReadText(kMaxKeyBytes, &request_.keys);
    case 'v':
      return ReadText(kMaxValueBytes, &request_.values);
    case 'i':
      return ReadNumber(&request_.number);
    case 'u': {
      uint32_t number = 0;
      if (!ReadNumber(&number)) return false;
      request_.number = number;
      return true;
    }
    default:  // 'n'
      if (!ReadNumber(&rounds_)) return false;
      if (rounds_ > kMaxKeys) return TooMuch("keys:", rounds_, kMaxKeys);
      loop_ = next_ + 1;
      if (rounds_ == 0) next_ += std::strlen(loop_);
      return true;
  }
}

absl::StatusOr<bool> StoreParser::ReadText(uint64_t most, std::vector<std::string>* texts) {
  uint64_t size = 0;
  if (bytes_.size() - at_ < sizeof size) return false;
  std::memcpy(&size, bytes_.data() + at_, sizeof size);
  if (size > most) return TooMuch("bytes in a key or value:", size, most);
  if (request_bytes_ + size > kMaxRequestBytes)
    return TooMuch("bytes in one request:", request_bytes_ + size, kMaxRequestBytes);
  if (bytes_.size() - at_ - sizeof size < size) return false;
  texts->push_back(bytes_.substr(at_ + sizeof size, size));
  at_ += sizeof size + size;
  request_bytes_ += size;
  return true;
}

template <typename Number>
bool StoreParser::ReadNumber(Number* number) {
  if (bytes_.size() - at_ < sizeof *number) return false;
  std::memcpy(number, bytes_.data() + at_, sizeof *number);
  at_ += sizeof *number;
  return true;
}

}  // namespace mtrun::launcher

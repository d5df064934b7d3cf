// Parser of the requests of a client of PyTorch's TCPStore. Commands, field orders and sizes follow
// torch/csrc/distributed/c10d/TCPStoreBackend.hpp and TCPStore.cpp (PyTorch 2.6 and later); numbers are
// little-endian, a text is its length as uint64 and its bytes. Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mtrun::launcher {

enum class StoreCommand : uint8_t {
  kValidate,  // first on each connection
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kNumKeys,
  kDelete,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLength,
  kListKeys,
  kBarrier,  // added after 2.11
};

struct StoreRequest {
  StoreCommand command = StoreCommand::kValidate;
  std::vector<std::string> keys = {};
  std::vector<std::string> values = {};
  int64_t number = 0;  // addend, a ping's nonce, or a barrier's member count
  bool operator==(const StoreRequest&) const = default;
};

class StoreParser {
 public:
  // PyTorch's own server has the first three limits.
  static constexpr uint64_t kMaxKeyBytes = 8 << 10;
  static constexpr uint64_t kMaxValueBytes = 8 << 20;
  static constexpr uint64_t kMaxKeys = 128 << 10;
  static constexpr uint64_t kMaxRequestBytes = 64 << 20;
  /// First number of a connection; a peer that sends another one is not a store client.
  static constexpr uint32_t kMagic = 0x3C85F7CE;

  void Append(std::string_view bytes) { bytes_ += bytes; }
  /// Returns the next complete request; nullopt if more bytes are needed. kInvalidArgument for a malformed
  /// request; the connection is unusable then.
  absl::StatusOr<std::optional<StoreRequest>> Next();
  /// Returns the approximate size of the incomplete request.
  size_t held() const {
    return bytes_.size() - at_ + request_bytes_ +
           sizeof(std::string) * (request_.keys.size() + request_.values.size());
  }
  /// Whether the client has sent a valid greeting.
  bool validated() const { return validated_; }

 private:
  absl::Status Begin(uint8_t command);
  absl::StatusOr<bool> ReadField(char field);
  absl::StatusOr<bool> ReadText(uint64_t most, std::vector<std::string>* texts);
  template <typename Number>
  bool ReadNumber(Number* number);
  absl::Status Finish();

  std::string bytes_;
  size_t at_ = 0;  // position of the parser
  bool validated_ = false;
  StoreRequest request_;
  const char* fields_ = nullptr;  // fields of request_, see kShapes; nullptr between requests
  const char* next_ = nullptr;    // next field
  const char* loop_ = nullptr;    // beginning of the repeated fields
  uint64_t rounds_ = 0;           // remaining repetitions, including this one
  uint64_t request_bytes_ = 0;
};

}  // namespace mtrun::launcher

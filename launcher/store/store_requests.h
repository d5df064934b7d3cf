// What a client of PyTorch's TCPStore says, one command after the other. Commands, field orders and sizes are
// those of torch/csrc/distributed/c10d/TCPStoreBackend.hpp and TCPStore.cpp (PyTorch 2.6 and later); numbers
// are little-endian, a text is its length as uint64 and its bytes. Pure; not thread-safe.
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
  kValidate,  // the first of each connection
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
  kBarrier,  // newer than 2.11
};

struct StoreRequest {
  StoreCommand command = StoreCommand::kValidate;
  std::vector<std::string> keys = {};
  std::vector<std::string> values = {};
  int64_t number = 0;  // what is added, a ping's nonce, a barrier's members
  bool operator==(const StoreRequest&) const = default;
};

class StoreParser {
 public:
  // PyTorch's own server has the first three.
  static constexpr uint64_t kMostKeyBytes = 8 << 10;
  static constexpr uint64_t kMostValueBytes = 8 << 20;
  static constexpr uint64_t kMostKeys = 128 << 10;
  static constexpr uint64_t kMostRequestBytes = 64 << 20;
  /// A connection begins with it; whatever else does is no client of a store.
  static constexpr uint32_t kMagic = 0x3C85F7CE;

  void Append(std::string_view bytes) { bytes_ += bytes; }
  /// The next whole request, nothing when more bytes are needed. kInvalidArgument for what no client says;
  /// the connection is of no more use then.
  absl::StatusOr<std::optional<StoreRequest>> Next();
  /// How many bytes of what is not yet a whole request it holds, about.
  size_t held() const {
    return bytes_.size() - at_ + request_bytes_ +
           sizeof(std::string) * (request_.keys.size() + request_.values.size());
  }
  /// The client has begun as one does.
  bool validated() const { return validated_; }

 private:
  absl::Status Begin(uint8_t command);
  absl::StatusOr<bool> ReadField(char field);
  absl::StatusOr<bool> ReadText(uint64_t most, std::vector<std::string>* texts);
  template <typename Number>
  bool ReadNumber(Number* number);
  absl::Status Finish();

  std::string bytes_;
  size_t at_ = 0;  // read so far
  bool validated_ = false;
  StoreRequest request_;
  const char* fields_ = nullptr;  // of request_, see ShapeOf; nullptr between two requests
  const char* next_ = nullptr;    // the field that comes now
  const char* loop_ = nullptr;    // where the repeated fields begin
  uint64_t rounds_ = 0;           // of them, this one included
  uint64_t request_bytes_ = 0;
};

/// What a client writes; for tests.
std::string Encode(const StoreRequest& request);

}  // namespace mtrun::launcher

// The contents of one generation's TCPStore and who waits for what. Answers are as PyTorch's own server
// (TCPStoreLibUvBackend.cpp) gives them. A value: no socket, no thread, no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/store/store_requests.h"

namespace mtrun::launcher {

struct StoreAnswer {
  int64_t client = 0;
  std::string bytes;
  bool operator==(const StoreAnswer&) const = default;
};

class StoreState {
 public:
  struct Limits {
    size_t most_bytes = size_t{1} << 30;           // of all keys and values
    size_t most_answer_bytes = size_t{256} << 20;  // to one request
    bool operator==(const Limits&) const = default;
  };

  StoreState() : StoreState(Limits{}) {}
  explicit StoreState(Limits limits) : limits_(limits) {}

  /// What is sent because of the request, in order: to `client`, and to others that waited for it. An error
  /// ends the client's connection and has changed nothing: kInvalidArgument (adding to a value that is no
  /// number, waiting twice), kResourceExhausted (a limit).
  absl::StatusOr<std::vector<StoreAnswer>> Apply(int64_t client, StoreRequest request);
  /// The client is gone: it waits for nothing more.
  void Forget(int64_t client);

  size_t bytes() const { return bytes_; }
  /// What the waiting of that client takes, about. No limit is here for it: it is the client's share.
  size_t bytes_waiting(int64_t client) const;
  size_t waiting() const { return wanted_.size() + at_barrier_.size(); }
  /// Ends the process when what is counted or listed twice differs.
  void CheckInvariants() const;
  bool operator==(const StoreState&) const = default;

 private:
  using Answers = std::vector<StoreAnswer>;
  struct Barrier {
    int64_t members = 0;
    std::vector<int64_t> clients;
    bool operator==(const Barrier&) const = default;
  };
  struct Wanted {
    std::vector<std::string> keys;  // sorted; those that have come meanwhile stay
    size_t missing = 0;             // of them; never 0
    size_t bytes = 0;               // for these keys, here and in waiters_
    bool operator==(const Wanted&) const = default;
  };

  /// Whether `more` bytes fit.
  absl::Status Room(size_t more) const;
  bool Has(const std::string& key) const;
  void Put(const std::string& key, std::string value, Answers* answers);
  /// The key is there now. `one`: for one of those who wait.
  void Wake(const std::string& key, bool one, Answers* answers);
  void StopWaiting(int64_t client);

  /// The answer to a request that changes nothing.
  absl::StatusOr<std::string> Read(const StoreRequest& request) const;
  absl::Status Set(StoreRequest& request, Answers* answers);
  bool Delete(const std::string& key);
  absl::Status CompareSet(int64_t client, StoreRequest& request, Answers* answers);
  absl::Status Add(int64_t client, const StoreRequest& request, Answers* answers);
  absl::Status AppendTo(const StoreRequest& request, Answers* answers);
  absl::Status Wait(int64_t client, StoreRequest& request, Answers* answers);
  absl::StatusOr<std::string> MultiGet(const StoreRequest& request) const;
  absl::StatusOr<std::string> ListKeys() const;
  /// As an answer; an error where it is too long for one.
  absl::StatusOr<std::string> Answered(const std::string& value) const;
  absl::Status TooLongAnAnswer() const;
  absl::Status MultiSet(StoreRequest& request, Answers* answers);
  absl::Status Push(StoreRequest& request, Answers* answers);
  absl::Status Pop(int64_t client, const std::string& key, Answers* answers);
  absl::Status Meet(int64_t client, const StoreRequest& request, Answers* answers);

  Limits limits_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // none empty
  size_t bytes_ = 0;
  std::map<int64_t, Wanted> wanted_;  // by each client that waits
  // Who waits for a key that is missing, in order of arrival.
  std::unordered_map<std::string, std::vector<int64_t>> waiters_;
  std::unordered_map<std::string, Barrier> barriers_;
  std::map<int64_t, std::string> at_barrier_;
};

}  // namespace mtrun::launcher

// The contents of one generation's TCPStore and its waiting clients. Answers match those of PyTorch's own
// server (TCPStoreLibUvBackend.cpp). A value: no socket, no thread, no clock.
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
    size_t most_bytes = size_t{1} << 30;           // all keys and values
    size_t most_answer_bytes = size_t{256} << 20;  // one answer
    bool operator==(const Limits&) const = default;
  };

  StoreState() : StoreState(Limits{}) {}
  explicit StoreState(Limits limits) : limits_(limits) {}

  /// Returns the answers to send after the request, in order: to `client`, and to others that waited for it.
  /// An error closes the client's connection and changes nothing: kInvalidArgument (adding to a value that is
  /// not a number, waiting twice), kResourceExhausted (a limit).
  absl::StatusOr<std::vector<StoreAnswer>> Apply(int64_t client, StoreRequest request);
  /// Removes a client, which is disconnected or asks for it, from all waits.
  void Forget(int64_t client);

  size_t bytes() const { return bytes_; }
  /// Returns the approximate size of the client's wait, which counts towards the client's share.
  size_t bytes_waiting(int64_t client) const;
  size_t waiting() const { return wanted_.size() + at_barrier_.size(); }
  /// Aborts the process if redundant counts or lists differ.
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
    std::vector<std::string> keys;  // sorted; includes keys that exist by now
    size_t missing = 0;             // how many of them are missing; never 0
    size_t bytes = 0;               // for these keys, here and in waiters_
    bool operator==(const Wanted&) const = default;
  };

  /// Checks that `more` bytes fit.
  absl::Status Room(size_t more) const;
  bool Has(const std::string& key) const;
  void Put(const std::string& key, std::string value, Answers* answers);
  /// Handles a key that exists now. `one`: wakes only one of its waiters.
  void Wake(const std::string& key, bool one, Answers* answers);

  /// Returns the answer to a read-only request.
  absl::StatusOr<std::string> Read(const StoreRequest& request) const;
  absl::Status Set(StoreRequest& request, Answers* answers);
  bool Delete(const std::string& key);
  absl::Status CompareSet(int64_t client, StoreRequest& request, Answers* answers);
  absl::Status Add(int64_t client, const StoreRequest& request, Answers* answers);
  absl::Status AppendTo(const StoreRequest& request, Answers* answers);
  absl::Status Wait(int64_t client, StoreRequest& request, Answers* answers);
  absl::StatusOr<std::string> MultiGet(const StoreRequest& request) const;
  absl::StatusOr<std::string> ListKeys() const;
  /// Encodes the value as an answer; an error if it is too long.
  absl::StatusOr<std::string> Answered(const std::string& value) const;
  absl::Status TooLongAnAnswer() const;
  absl::Status MultiSet(StoreRequest& request, Answers* answers);
  absl::Status Push(StoreRequest& request, Answers* answers);
  absl::Status Pop(int64_t client, const std::string& key, Answers* answers);
  absl::Status Meet(int64_t client, const StoreRequest& request, Answers* answers);

  Limits limits_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // never empty ones
  size_t bytes_ = 0;
  std::map<int64_t, Wanted> wanted_;  // by waiting client
  // Clients that wait for a missing key, in order of arrival.
  std::unordered_map<std::string, std::vector<int64_t>> waiters_;
  std::unordered_map<std::string, Barrier> barriers_;
  std::map<int64_t, std::string> at_barrier_;
};

}  // namespace mtrun::launcher

// The small key-value space of one generation (NCCL's unique id, addresses). Pure, with answers as data. Not
// thread-safe. Invariant: every read is answered exactly once, by Read, Set or Close, unless its node is
// dropped.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/worker_channel.h"

namespace mtrun::rendezvous {

class KeyValueStore {
 public:
  static constexpr size_t kMaxKeyBytes = 1024;
  static constexpr size_t kMaxValueBytes = 1 << 20;
  static constexpr size_t kMaxTotalBytes = 8 << 20;  // keys and values; also bounds any one answer
  static constexpr size_t kMaxEntries = channel::kMaxStoreEntries;
  static constexpr size_t kMaxKeysPerRead = channel::kMaxStoreKeys;
  static constexpr size_t kMaxWaiters = 16384;

  struct Answer {
    std::string node_id;
    int64_t id = 0;
    std::map<std::string, std::string> values;
    std::string error;
    bool operator==(const Answer&) const = default;
  };
  struct Waiter {
    std::string node_id;
    int64_t id = 0;
    std::vector<std::string> keys;
    size_t found = 0;  // leading keys that are set: a thousand waiters need no second look
    bool operator==(const Waiter&) const = default;
  };

  /// Sets a key and returns the answers to the reads that this completes. If a limit is exceeded, the key is
  /// remembered as refused, so that nodes that wait for it get an error.
  std::vector<Answer> Set(const std::string& key, const std::string& value);
  /// Answers at once if all keys are set or `wait` is false (missing keys give an error beside the values
  /// that exist); otherwise returns nothing yet. A second read with the id of a pending one of the same node
  /// is a resend.
  std::vector<Answer> Read(const std::string& node_id, int64_t id, const std::vector<std::string>& keys,
                           bool wait);
  /// Forgets the pending reads of a node that is gone.
  void DropNode(const std::string& node_id);
  /// Empties the store; every pending read gets `error`.
  std::vector<Answer> Close(const std::string& error);

  const std::vector<Waiter>& waiters() const { return waiters_; }
  const std::map<std::string, std::string>& values() const { return values_; }
  bool operator==(const KeyValueStore&) const = default;

 private:
  std::string RefusalOf(const std::string& key, const std::string& value) const;
  bool Complete(const Waiter& waiter, Answer& answer) const;

  std::map<std::string, std::string> values_;
  std::map<std::string, std::string> refused_;  // key -> why its value was refused
  std::string full_;                            // set if even refusals do not fit any more
  size_t total_bytes_ = 0;
  std::vector<Waiter> waiters_;
};

}  // namespace mtrun::rendezvous

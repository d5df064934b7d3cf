// Which connections a server keeps when more come than it may have. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace mtrun::web {

/// What a connection waits for. The first and the last are its client's to end, and may be as slow as that.
enum class Waits { kRequest, kHandler, kReader };

/// A newcomer is worth more than one who had its time: when all slots are taken the connection that has
/// waited longest for its whole request is evicted, so that those who say nothing keep nobody out. Of several
/// peers the one with the most such connections loses its oldest: a crowd from one address competes with
/// itself. Without one of these the slowest reader goes; only when every connection waits for its handler,
/// the newcomer is refused.
class ConnectionSlots {
 public:
  explicit ConnectionSlots(size_t most) : most_(most) {}

  struct Admission {
    bool admitted = true;
    std::optional<int64_t> evicted;  // has left the slots
    bool operator==(const Admission&) const = default;
  };
  /// A connection from `peer` has come and waits for its request. REQUIRES: `id` is above all before.
  Admission Admit(int64_t id, const std::string& peer);
  /// Ids that have left are passed over, here and below.
  void Change(int64_t id, Waits waits);
  void Remove(int64_t id) { taken_.erase(id); }

  bool operator==(const ConnectionSlots&) const = default;

 private:
  struct Slot {
    std::string peer;
    Waits waits = Waits::kRequest;
    bool operator==(const Slot&) const = default;
  };
  std::optional<int64_t> Longest(Waits waits) const;

  size_t most_;
  std::map<int64_t, Slot> taken_;  // the oldest first
};

}  // namespace mtrun::web

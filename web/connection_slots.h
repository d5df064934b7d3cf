// Which connections a server keeps if more arrive than it can hold. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace mtrun::web {

/// The event that a connection waits for. The client controls how long kRequest and kReader last.
enum class Waits { kRequest, kHandler, kReader };

/// Assigns a bounded number of slots. If all are taken, a new connection evicts the one that has waited
/// longest for its complete request, so that silent clients cannot lock out others. Among several peers the
/// one with most such connections loses its oldest, so a flood from one address competes with itself. If none
/// waits for its request, the slowest reader is evicted. Connections of authenticated clients are evicted only
/// if there are no others. If all connections wait for their handlers, the new one is refused.
class ConnectionSlots {
 public:
  explicit ConnectionSlots(size_t most) : most_(most) {}

  struct Admission {
    bool admitted = true;
    std::optional<int64_t> evicted;  // no longer in a slot
    bool operator==(const Admission&) const = default;
  };
  /// Adds connection `id` from `peer`, which waits for its request. REQUIRES: `id` is larger than all before.
  Admission Admit(int64_t id, const std::string& peer);
  /// Updates a connection; unknown ids are ignored, also by SetAuthenticated and Remove.
  void Change(int64_t id, Waits waits);
  /// Records that the client of a connection has shown credentials; this lasts as long as the connection.
  void SetAuthenticated(int64_t id);
  void Remove(int64_t id) { taken_.erase(id); }

  bool operator==(const ConnectionSlots&) const = default;

 private:
  struct Slot {
    std::string peer;
    Waits waits = Waits::kRequest;
    bool authenticated = false;
    bool operator==(const Slot&) const = default;
  };
  std::optional<int64_t> Longest(Waits waits, bool authenticated) const;

  size_t most_;
  std::map<int64_t, Slot> taken_;  // the oldest first
};

}  // namespace mtrun::web

// Connections to the service that have not made a call yet, so nobody knows whether they ever show the token:
// how long they may take, and which has to go where there are too many. Pure: time is an argument. A value;
// not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/crowd.h"

namespace mtrun::rendezvous {

class UnknownConnections {
 public:
  struct Limits {
    size_t most = 256;
    Duration patience = std::chrono::seconds(10);
  };

  explicit UnknownConnections(const Limits& limits) : limits_(limits) {}

  /// One more, from `peer` ("10.0.0.7:4242", another one each). The id of the one that has to go for it, if
  /// one has: who opens most loses his own (base/crowd.h), so that a stranger pushes himself out, not a node.
  std::optional<uint64_t> Add(uint64_t id, const std::string& peer, TimePoint now);
  /// It has made a call. Its id, nothing for one that is not among these.
  std::optional<uint64_t> Knows(const std::string& peer);
  /// It has gone. Who it was; nothing for one that is not among these.
  std::optional<std::string> Remove(uint64_t id);
  /// Ids of those whose time is over; still among these.
  std::vector<uint64_t> Late(TimePoint now) const;
  std::optional<TimePoint> NextDeadline() const;
  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::string peer;
    TimePoint since;
  };
  Limits limits_;
  std::map<uint64_t, Connection> connections_;  // ids grow, so the oldest comes first
  std::map<std::string, uint64_t> ids_;         // by peer
  Crowd crowd_;
};

}  // namespace mtrun::rendezvous

// Connections to the service that have not made a call yet, so it is unknown whether they will show the
// token. Decides how long they may take, and which one is closed if there are too many. Pure: time is an
// argument. A value; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unauthenticated_connections.h"

namespace mtrun::rendezvous {

class UnknownConnections {
 public:
  struct Limits {
    size_t most = 256;
    Duration timeout = std::chrono::seconds(10);
  };

  explicit UnknownConnections(const Limits& limits) : limits_(limits) {}

  /// Adds a connection from `peer` ("10.0.0.7:4242", unique). Returns the id of the one to close for it, if
  /// any: the peer with most connections loses its own (base/unauthenticated_connections.h), so an unknown
  /// client displaces itself.
  std::optional<uint64_t> Add(uint64_t id, const std::string& peer, TimePoint now);
  /// Notes a call. Returns the connection's id, or nothing if it is not among these.
  std::optional<uint64_t> Knows(const std::string& peer);
  /// Removes a connection. Returns its peer, or nothing if it is not among these.
  std::optional<std::string> Remove(uint64_t id);
  /// Returns the ids of connections whose time is over; they stay among these.
  std::vector<uint64_t> Late(TimePoint now) const;
  std::optional<TimePoint> NextDeadline() const;
  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::string peer;
    TimePoint since;
  };
  Limits limits_;
  std::map<uint64_t, Connection> connections_;  // ids increase, so the oldest comes first
  std::map<std::string, uint64_t> ids_;         // by peer
  UnauthenticatedConnections groups_;           // by address
};

}  // namespace mtrun::rendezvous

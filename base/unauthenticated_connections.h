// Unauthenticated connections, grouped by remote address, and which of them to close first if there are too
// many. A value; pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

namespace mtrun {

/// Maps an address to its place: IPv6 to the /64 network, in which one machine can have any number of
/// addresses, and all of loopback to one place. Other texts ("10.0.0.7", "") stay as they are.
std::string PlaceOfAddress(const std::string& address);

class UnauthenticatedConnections {
 public:
  /// Adds connection `id` from `address` ("10.0.0.7", "fe80::1") as the newest.
  void Add(uint64_t id, const std::string& address);
  /// Removes a connection; does nothing if `id` is unknown.
  void Remove(uint64_t id);
  /// Makes a connection the newest. REQUIRES: `id` is in the crowd.
  void Renew(uint64_t id);
  /// Returns the connection to close first: the oldest one of the busiest address in the busiest place. Ties
  /// go to the group with the oldest connection. A client that opens many connections thus evicts its own,
  /// and one with many addresses only those of its network. REQUIRES: not empty.
  uint64_t First() const;
  size_t size() const { return members_.size(); }

 private:
  using Ids = std::map<uint64_t, uint64_t>;  // by age, oldest first
  struct Place {
    std::map<std::string, Ids> addresses;  // none empty
    size_t size = 0;
  };
  struct Member {
    std::string place, address;
    uint64_t age = 0;
  };
  static uint64_t OldestOf(const Place& place);

  std::unordered_map<uint64_t, Member> members_;
  std::map<std::string, Place> places_;  // none empty
  uint64_t last_age_ = 0;
};

}  // namespace mtrun

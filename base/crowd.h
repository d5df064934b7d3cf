// Connections of which nobody knows yet what they are good for, by the addresses that they come from, and
// which of them goes first where there are too many. A value; pure; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

namespace mtrun {

/// Of addresses that one machine may have as many of as it likes: IPv6's are told apart by their networks of
/// 64 bits, and all of loopback is one place. Another text ("10.0.0.7", "") is its own.
std::string PlaceOfAddress(const std::string& address);

class Crowd {
 public:
  /// One more, the newest; of `address` ("10.0.0.7", "fe80::1").
  void Add(uint64_t id, const std::string& address);
  /// Nothing for one that is not among these.
  void Remove(uint64_t id);
  /// It counts as the newest from now on. REQUIRES: it is among these.
  void Renew(uint64_t id);
  /// The oldest of the address that has most, of the place that has most; among equals it is where the oldest
  /// one is. So whoever opens very many pushes himself out, and many addresses help him against his
  /// neighbours alone. REQUIRES: there is one.
  uint64_t First() const;
  size_t size() const { return members_.size(); }

 private:
  using Ids = std::map<uint64_t, uint64_t>;  // by age, the oldest first
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

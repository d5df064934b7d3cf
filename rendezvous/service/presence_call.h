// A probe of one member's presence port: connects without blocking and compares the received greeting with
// that member's. The caller polls. Not thread-safe.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/posix.h"
#include "rendezvous/service/address_list.h"
#include "rendezvous/wire/events.h"

namespace mtrun::rendezvous {

class PresenceCall {
 public:
  enum class State {
    kOpen,     // no result yet
    kAlive,    // the member's id came
    kDead,     // the host refuses, or another greeting came: the port is not the member's any more
    kUnknown,  // silent, reset, closed too early, or unreachable: that proves nothing
  };

  /// Connects to the first of `addresses`. Tries the next one if a host refuses or is another one, or if an
  /// address cannot be asked (address_list.h).
  PresenceCall(std::string node_id, uint64_t id, AddressList addresses, TimePoint deadline);

  const std::string& node_id() const { return node_id_; }
  State state() const { return state_; }
  TimePoint deadline() const { return deadline_; }
  /// Wait until it is readable or broken, then call OnReady.
  int fd() const { return socket_.get(); }

  void OnReady();
  /// Ends the call if its time is over.
  void OnTime(TimePoint now);

 private:
  void Connect();
  void Fail(int error);
  void End(State state);

  std::string node_id_, greeting_, heard_;
  AddressList addresses_;
  const addrinfo* next_;  // in addresses_
  bool asked_ = false;    // an address before it was asked
  TimePoint deadline_;
  UniqueFd socket_;
  State state_ = State::kOpen;
};

}  // namespace mtrun::rendezvous

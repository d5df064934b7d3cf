// One look at a member's presence port: connects without blocking and compares what it hears with the
// greeting of that member. The caller polls. Not thread-safe.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/posix.h"
#include "rendezvous/events.h"
#include "rendezvous/service/address_list.h"

namespace mtrun::rendezvous {

class PresenceCall {
 public:
  enum class State {
    kOpen,     // still to come
    kAlive,    // the member's id came
    kDead,     // the host refuses, or something else came: the port is not the member's any more
    kUnknown,  // silent, reset, closed too early, no way there: that proves nothing
  };

  /// Connects to the first of `addresses`, and to the next one where a host refuses or is another, or where
  /// an address cannot be asked (address_list.h).
  PresenceCall(std::string node_id, uint64_t id, AddressList addresses, TimePoint deadline);

  const std::string& node_id() const { return node_id_; }
  State state() const { return state_; }
  TimePoint deadline() const { return deadline_; }
  /// To wait on until it is readable or broken; then OnReady.
  int fd() const { return socket_.get(); }

  void OnReady();
  /// Ends it when its time is over.
  void OnTime(TimePoint now);

 private:
  void Connect();
  void Fail(int error);
  void End(State state);

  std::string node_id_, greeting_, heard_;
  AddressList addresses_;
  const addrinfo* next_;  // of addresses_
  bool asked_ = false;    // one of those before it
  TimePoint deadline_;
  UniqueFd socket_;
  State state_ = State::kOpen;
};

}  // namespace mtrun::rendezvous

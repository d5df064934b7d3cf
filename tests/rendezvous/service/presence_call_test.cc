#include "rendezvous/service/presence_call.h"

#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "base/presence_greeting.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/service/talker.h"

namespace mtrun::rendezvous {
namespace {

using CallState = PresenceCall::State;
using Then = Talker::Then;

AddressList AddressOf(const std::string& endpoint) { return Resolve(*ParseEndpoint(endpoint)); }

/// Returns an address of a family that this machine does not have.
AddressList Unusable() {
  AddressList address = AddressOf("127.0.0.1:9");
  address->ai_family = AF_MAX;
  return address;
}

AddressList Joined(AddressList first, AddressList second) {
  first->ai_next = second.release();
  return first;
}

CallState ResultOf(AddressList addresses) {
  PresenceCall call("node1", 7, std::move(addresses), MonotonicNow() + std::chrono::seconds(30));
  while (call.state() == CallState::kOpen) {
    pollfd ready = {call.fd(), POLLIN, 0};
    if (poll(&ready, 1, /*timeout=*/1000) > 0) call.OnReady();
    call.OnTime(MonotonicNow());
  }
  return call.state();
}

TEST(PresenceCall, UnusableAddressProvesNothingAndOthersAreTried) {
  const Talker here(PresenceGreeting(7), Then::kClose);
  const std::string refusing = Talker("", Then::kClose).endpoint();
  EXPECT_EQ(ResultOf(Joined(AddressOf(refusing), Unusable())), CallState::kDead);
  EXPECT_EQ(ResultOf(Joined(Unusable(), AddressOf(refusing))), CallState::kDead);
  EXPECT_EQ(ResultOf(Joined(Unusable(), AddressOf(here.endpoint()))), CallState::kAlive);
  EXPECT_EQ(ResultOf(Unusable()), CallState::kUnknown) << "nobody has been asked";
  EXPECT_EQ(ResultOf(Joined(Unusable(), Unusable())), CallState::kUnknown);
}

}  // namespace
}  // namespace mtrun::rendezvous

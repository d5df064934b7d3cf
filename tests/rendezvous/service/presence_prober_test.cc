#include "rendezvous/service/presence_prober.h"

#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/str_format.h"
#include "base/presence_greeting.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/service/talker.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Then = Talker::Then;

constexpr std::chrono::seconds kPresencePatience{30};  // answers come long before
constexpr std::chrono::milliseconds kShort{200};       // if no answer comes

std::string Refusing() { return Talker("", Then::kClose).endpoint(); }

TEST(PresenceProber, DistinguishesTheIdFromAnotherAndFromARefusal) {
  const Talker right(PresenceGreeting(7), Then::kClose), other(PresenceGreeting(8), Then::kClose),
      web("HTTP/1.1 400 Bad Request\r\n\r\n", Then::kStay), terse("x", Then::kStay);
  const ProbeResult found = ProbePresence({{"here", {right.endpoint(), 7}},
                                           {"other", {other.endpoint(), 7}},
                                           {"web", {web.endpoint(), 7}},
                                           {"terse", {terse.endpoint(), 7}},
                                           {"refused", {Refusing(), 7}}},
                                          kPresencePatience);
  EXPECT_THAT(found.alive, ElementsAre("here"));
  EXPECT_THAT(found.dead, ElementsAre("other", "refused", "terse", "web"));
}

TEST(PresenceProber, IncompleteGreetingProvesNothing) {
  const std::string greeting = PresenceGreeting(7), part = greeting.substr(0, 11);
  const Talker right(greeting, Then::kClose), silent("", Then::kStay), closing("", Then::kClose),
      reset("", Then::kReset), slow(part, Then::kStay), cut(part, Then::kClose), cut_hard(part, Then::kReset);
  const ProbeResult found = ProbePresence({{"silent", {silent.endpoint(), 7}},
                                           {"closing", {closing.endpoint(), 7}},
                                           {"reset", {reset.endpoint(), 7}},
                                           {"slow", {slow.endpoint(), 7}},
                                           {"cut", {cut.endpoint(), 7}},
                                           {"cut hard", {cut_hard.endpoint(), 7}},
                                           {"without id", {right.endpoint(), 0}},
                                           {"refused without id", {Refusing(), 0}},
                                           {"nowhere", {"no-such-host.invalid:1", 7}},
                                           {"no endpoint", {"no endpoint:", 7}}},
                                          kShort);
  EXPECT_THAT(found.alive, IsEmpty());
  EXPECT_THAT(found.dead, IsEmpty());
}

TEST(PresenceProber, TriesEachAddressOfAName) {
  const Talker right(PresenceGreeting(7), Then::kClose);
  const std::string port = right.endpoint().substr(right.endpoint().find(':'));
  // Often ::1 comes first, where no process listens.
  EXPECT_THAT(ProbePresence({{"here", {"localhost" + port, 7}}}, kPresencePatience).alive,
              ElementsAre("here"));
}

TEST(PresenceProber, FiveHundredProbesNeedFewDescriptors) {
  const Talker right(PresenceGreeting(7), Then::kClose);
  std::map<std::string, PresenceProbe> members;
  for (int i = 0; i < 500; ++i) members[absl::StrCat("node", i)] = {right.endpoint(), 7};
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(STDERR_FILENO);
  ASSERT_EQ(close(lowest_free), 0);
  const rlimit few = {static_cast<rlim_t>(lowest_free) + kPresenceCallsAtOnce + 8, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const ProbeResult found = ProbePresence(members, kPresencePatience);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(found.alive.size(), members.size());
  EXPECT_THAT(found.dead, IsEmpty());
}

TEST(PresenceProber, SilentMembersDoNotDelayTheOthers) {
  const Talker right(PresenceGreeting(7), Then::kClose), silent("", Then::kStay);
  std::map<std::string, PresenceProbe> members;
  for (int i = 0; i < 300; ++i) members[absl::StrFormat("a%03d", i)] = {silent.endpoint(), 7};
  members["b"] = {right.endpoint(), 7};
  members["c"] = {Refusing(), 7};
  const ProbeResult found = ProbePresence(members, std::chrono::seconds(2));
  EXPECT_THAT(found.alive, ElementsAre("b"));
  EXPECT_THAT(found.dead, ElementsAre("c"));
}

}  // namespace
}  // namespace mtrun::rendezvous

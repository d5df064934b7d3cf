// What the tests of which service may have a job share.
#pragma once

#include <string>

#include "gtest/gtest.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/takeover_quorum.h"
#include "tests/rendezvous/job_values.h"

namespace mtrun::rendezvous {

using State = PeerService::State;

inline PeerService Peer(int number, State state, uint64_t generation = 0, bool authority = false) {
  PeerService peer;
  peer.endpoint = "service" + std::to_string(number);
  peer.state = state;
  peer.generation = Generation{generation, generation * 11};
  peer.authority = authority;
  return peer;
}

inline const JobRun kRun(9, TimePoint());

inline const Departures kNobodyGone{JobSettings()};

inline std::string WhyNot(const TakeoverQuorum& quorum, const GenerationRecord& generation, Roster roster,
                          const Departures& departures = kNobodyGone) {
  roster.Follow(generation.last());
  const std::optional<std::string> why_not = quorum.WhyNot(generation, roster, departures);
  EXPECT_EQ(quorum.Allows(generation, roster, departures), !why_not);
  return why_not.value_or("");
}

inline const GenerationRecord kNone;

}  // namespace mtrun::rendezvous

// Shared by the tests of which service may have a job.
#pragma once

#include <string>

#include "gtest/gtest.h"
#include "rendezvous/authority/takeover_quorum.h"
#include "rendezvous/wire/job_settings.h"
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

/// Returns the reason in words; "" if it has authority.
inline std::string WhyNot(const TakeoverQuorum& quorum, const GenerationRecord& generation, Roster roster,
                          const Departures& departures = kNobodyGone) {
  roster.Follow(generation.last());
  const MembershipView view{generation, roster, departures};
  const FormationRight right = quorum.Authority(view);
  EXPECT_EQ(right.granted(), Describe(right, view).empty());
  return Describe(right, view);
}

inline const GenerationRecord kNone;

}  // namespace mtrun::rendezvous

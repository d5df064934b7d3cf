// Small factories for tests of the parts of a job's state machine.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/authority/formation.h"
#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {

inline Offer MakeOffer(const std::string& node, int workers = 1) {
  Offer offer;
  offer.node_id = offer.host = node;
  offer.address = "10.0.0.1";
  offer.workers = workers;
  offer.presence_port = 7000;
  offer.presence_id = 77;
  return offer;
}

/// Returns generation `number` of these nodes, with one worker each.
inline Assignment MakeGeneration(uint64_t number, const std::vector<std::string>& nodes) {
  std::vector<Offer> offers;
  for (const std::string& node : nodes) offers.push_back(MakeOffer(node));
  return MakeAssignment(Generation{number, number * 11}, offers, 0);
}

inline GenerationRecord Running(uint64_t number, const std::vector<std::string>& nodes) {
  GenerationRecord record;
  record.Saw(number);
  record.Begin(MakeGeneration(number, nodes));
  return record;
}

/// Returns a roster in which these nodes are here and have offered.
inline Roster Here(const std::vector<std::string>& nodes, const JobSettings& settings = {}) {
  Roster roster(settings);
  for (const std::string& node : nodes) {
    roster.Open(node, TimePoint());
    roster.TakeOffer(node, MakeOffer(node));
    roster.Change(node, [](RosterNode& entry) { entry.greeted = true; });
  }
  return roster;
}

/// Returns the same, after this generation.
inline Roster HereAfter(const GenerationRecord& generation, const std::vector<std::string>& nodes) {
  Roster roster = Here(nodes);
  roster.Follow(generation.last());
  return roster;
}

}  // namespace mtrun::rendezvous

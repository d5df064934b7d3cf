// One service of several (docs/protocol.md): when it may change the membership of the job, and which other
// service has the job instead. Pure; a value, not thread-safe.
//
// At most one service may, since each node is registered with one service at a time: it needs more than half
// of those members of the last generation that may still be alive, which are all but those that left and
// those whose host answers that their agent is gone. Before the first generation, and where none of the
// members is left, it is the first service of the list that is there, once every other one has answered that
// it does not have the job (or is gone).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/departures.h"
#include "rendezvous/events.h"
#include "rendezvous/generation_record.h"
#include "rendezvous/roster.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

class TakeoverQuorum {
 public:
  explicit TakeoverQuorum(const JobSettings& settings)
      : listed_(settings.endpoints.size() > 1), takeover_any_(settings.takeover_any) {}

  bool listed() const { return listed_; }  // there are other services
  bool moved() const { return moved_; }    // the job was given up to another one

  void OnProbed(std::vector<PeerService> peers) { peers_ = std::move(peers); }
  void OnMoved() { moved_ = true; }

  /// Members of the last generation that may be alive and are not registered here.
  std::vector<const Member*> Unaccounted(const GenerationRecord& generation, const Roster& roster,
                                         const Departures& departures) const;
  /// Why this service may not change the membership, for people; nothing when it may.
  std::optional<std::string> WhyNot(const GenerationRecord& generation, const Roster& roster,
                                    const Departures& departures) const;
  /// The service that has the job instead of this one, as the others answered last; null when this one keeps
  /// it.
  const PeerService* FindSuccessor(const GenerationRecord& generation, const Roster& roster,
                                   const Departures& departures) const;
  /// Presence ports of members that are not accounted for.
  std::map<std::string, PresenceProbe> Missing(const GenerationRecord& generation, const Roster& roster,
                                               const Departures& departures) const;

  std::string Describe() const;
  bool operator==(const TakeoverQuorum&) const = default;

 private:
  std::optional<std::string> WhyNotBegin() const;
  std::optional<std::string> WhyNotBeginAgain(const Generation& last) const;

  bool listed_, takeover_any_;      // constant after construction
  std::vector<PeerService> peers_;  // as seen last, in the order of the list
  bool moved_ = false;
};

}  // namespace mtrun::rendezvous

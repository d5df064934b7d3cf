// One service of several that may have the job (docs/protocol.md): when it may change the membership, and
// which other service has the job instead. Pure; a value, not thread-safe.
//
// Several are those of a list of endpoints; or, where the job has one endpoint and an mtrun hosts it, that
// one and the services of all members, which take over from a host that is dead. Whoever has formed the last
// generation keeps the job then; any other one, a fresh one at the endpoint too, is one of several.
//
// At most one service may, since each node is registered with one service at a time: it needs all those
// members of the last generation that may still be alive, which are all but those that left, those whose host
// answers that their agent is gone, and those that an operator has evicted. Where some are missing it needs
// more than half of all but those that left, for the dead and the evicted may have gone on with the missing
// before; of two halves the one with the lowest rank. A member that is registered and would not be
// in the next generation counts as missing: it may turn to another service before it hears of that one.
// Before the first generation, and where none of the members is left, it is the first service of the list
// that is there, once every other one has answered that it does not have the job (or is gone).
//
// A host that decided alone may have gone on without those members whom it had lost, with nodes that nobody
// else knows of. So a member's service takes over from it only where it had heard a member until it died, or
// so shortly before that it had not lost that one yet (JobSettings::LostAfter). With takeover=majority the
// host needed the members too: there that holds where those that are here are no majority without the dead.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/departures.h"
#include "rendezvous/events.h"
#include "rendezvous/generation_record.h"
#include "rendezvous/job_run.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/predecessors.h"
#include "rendezvous/roster.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

class TakeoverQuorum {
 public:
  static constexpr Duration kMostAge = std::chrono::milliseconds(1400);  // less than half of recovery_window
  static constexpr char kProbing[] = "probing the other services of the list";

  /// What this service is, where its job has one endpoint.
  struct Role {
    std::string endpoint = {};  // of the job, "" where it is not known
    bool embedded = false;      // it lives in an mtrun, and ends with it
    bool standby = false;       // it is not at the endpoint, and serves only to take over
    bool operator==(const Role&) const = default;
  };

  explicit TakeoverQuorum(const JobSettings& settings) : TakeoverQuorum(settings, Role()) {}
  TakeoverQuorum(const JobSettings& settings, Role role);

  bool listed() const { return listed_; }  // there are other endpoints
  /// It is one of several that may have the job.
  bool Applies(const GenerationRecord& generation) const;
  /// Of all services that may have the job, in the order in which nodes try them; none where this one is the
  /// only one.
  std::vector<std::string> Endpoints(const GenerationRecord& generation) const;
  bool moved() const { return moved_; }  // the job was given up to another one

  /// As the others answered at `seen`. Another run does not count there that has less proof than this one.
  void OnProbed(std::vector<PeerService> peers, const JobRun& run, TimePoint seen, TimePoint now);
  void OnMoved() { moved_ = true; }
  /// The last generation was formed elsewhere, and is known from others.
  void OnLearned(const Assignment& last) {
    formed_here_ = false;
    predecessors_.OnLearned(last);
  }
  /// The last generation is about to be followed by `next`, which is formed here. What goes with that one.
  std::vector<EarlierGeneration> OnFollowed(const GenerationRecord& generation, const Departures& departures,
                                            const Assignment& next);
  /// The node knows of this one.
  void OnKnown(const std::string& node_id, const Generation& known, const Generation& last) {
    predecessors_.OnKnown(node_id, known, last);
  }
  /// All members know of the last one, or enough as another service has found out.
  void OnSettled() { predecessors_.Clear(); }
  /// Nobody can follow a generation before the last one any more.
  bool Settled() const { return predecessors_.empty(); }

  /// No member can decide where the job is, the other services do: there has been no generation, or nobody of
  /// the last one is left.
  bool DecidedByServices(const GenerationRecord& generation, const Departures& departures) const;
  /// Nobody is left of a generation that is known, neither here nor at another service.
  bool NothingLeft(const GenerationRecord& generation, const Departures& departures, TimePoint now) const;
  /// What is known of the other services is too old for that: one that was not there may be by now. Another
  /// one waits 3 s (recovery_window) when it has started and looks then, so that one of the two sees the
  /// other's decision.
  bool Stale(TimePoint now) const { return now - seen_at_ > kMostAge; }
  /// When another service was last found gone, back, or without the job that it had: nodes of that one's job
  /// may be on their way here. Nothing as long as all are as they were seen first.
  std::optional<TimePoint> changed_at() const { return changed_at_; }

  /// Members of the last generation that may be alive and are not registered here; and of those before it
  /// where WhyNotOf waits for them.
  std::vector<const Member*> Unaccounted(const GenerationRecord& generation, const Roster& roster,
                                         const Departures& departures) const;
  /// Why this service may not change the membership, for people; nothing when it may.
  std::optional<std::string> WhyNot(const GenerationRecord& generation, const Roster& roster,
                                    const Departures& departures) const;
  /// Why it may not form a generation of these `nodes` although it may change the membership; nothing when it
  /// may. A member of the last one that is here and would be left out counts as missing: nobody has told it
  /// yet, and it may turn to another service before. The same holds of earlier ones (Predecessors).
  std::optional<std::string> WhyNotOf(const std::vector<std::string>& nodes,
                                      const GenerationRecord& generation, const Roster& roster,
                                      const Departures& departures);
  /// It may: the same without a text, for every event.
  bool Allows(const GenerationRecord& generation, const Roster& roster, const Departures& departures) const;
  /// More than half of those members of a generation that may be alive are here, of several services.
  bool HasMost(const GenerationRecord& generation, const Roster& roster, const Departures& departures) const;
  /// The service that has the job instead of this one, as the others answered last; null when this one keeps
  /// it.
  const PeerService* FindSuccessor(const GenerationRecord& generation, const Roster& roster,
                                   const Departures& departures) const;
  /// The service at which this run has ended, or another one with more proof has begun; null where none is
  /// known. Where this one has `authority`, an end elsewhere counts only if it is certain that no node has
  /// gone on here since: all members of the last generation have finished there, or it had a newer one.
  const PeerService* FindWhereOver(const GenerationRecord& generation, const JobRun& run, bool authority,
                                   TimePoint now) const;
  /// A member of a generation before the last one that may be followed elsewhere.
  const Member* FindEarlier(const std::string& node_id) const { return predecessors_.Find(node_id); }
  /// All of those that are not gone.
  std::vector<const Member*> Earlier(const Departures& departures) const {
    return predecessors_.Remaining(departures);
  }
  /// Presence ports of members that are not accounted for.
  std::map<std::string, PresenceProbe> Missing(const GenerationRecord& generation, const Roster& roster,
                                               const Departures& departures) const;

  std::string Describe() const;
  bool operator==(const TakeoverQuorum&) const = default;

 private:
  /// The members of the last generation decide, of several services, and some of them are left.
  bool DecidedByMembers(const GenerationRecord& generation, const Departures& departures) const;
  /// A dead host may have gone on with others: it may have lost all members here before it was found dead.
  bool HostMayHaveGoneOn(const GenerationRecord& generation, const Roster& roster,
                         const Departures& departures) const;
  /// Of the last generation alone.
  std::vector<const Member*> Absent(const GenerationRecord& generation, const Roster& roster,
                                    const Departures& departures) const;
  /// Enough of them are here.
  bool HasEnough(const GenerationRecord& generation, const Roster& roster,
                 const Departures& departures) const;
  /// Of a generation's members, without those that left.
  struct Count {
    size_t here, missing, counted;
    bool lowest_here;  // the one with the lowest rank
  };
  /// `absent`: ranks of those that are not here, which may be of members that are gone.
  static Count CountOf(const GenerationRecord& generation, const std::set<int>& absent,
                       const Departures& departures);
  /// Nobody else is, whether or not those that are missing live.
  bool AreMajority(const Count& count) const;
  /// Enough of them would be here without these.
  bool AreEnough(const GenerationRecord& generation, const std::set<int>& absent,
                 const Departures& departures) const;
  std::optional<std::string> WhyNotBegin() const;
  std::optional<std::string> WhyNotBeginAgain(const GenerationRecord& generation,
                                              const Departures& departures) const;

  // Constant after construction.
  std::vector<std::string> listed_endpoints_;
  bool listed_, takeover_any_, takeover_majority_;
  Role role_;

  std::vector<PeerService> peers_;  // as seen last, in the order of the list
  TimePoint seen_at_;
  std::optional<TimePoint> changed_at_;
  bool moved_ = false, formed_here_ = false;
  Predecessors predecessors_;
  bool awaits_earlier_ = false;  // members of predecessors
};

}  // namespace mtrun::rendezvous

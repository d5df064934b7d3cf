// Whether the last generation is over for certain. A step needs every member, so it is as soon as one of them
// is out of it: it has stopped and says so here, a worker of it has ended, it left with notice, no process of
// it is left, an operator says so, or its lease has ended (docs/protocol.md).
//
// Members that leave a generation behind a step say that they are ready for the next one while they end it.
// That suffices where the next one needs them: it cannot commit before they have come. Until it has made a
// step the old one is remembered, for the next one may end before they came. Pure; a value, not thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/events.h"
#include "rendezvous/generation_record.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/roster.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

class Departures {
 public:
  static constexpr size_t kMostLooked = 8;  // members whose presence ports are looked at; one suffices
  static constexpr int kMostLooks = 3;      // in vain, at a generation that runs
  /// What a person can do about a member that is waited for in vain.
  static constexpr char kAdvice[] = "if one never comes back: mtrun --evict NODE ENDPOINT";

  explicit Departures(const JobSettings& settings) : lease_(settings.fence_timeout) {}

  /// What a node's clock may be slower than this one in a lease, and a message late.
  Duration Margin() const { return std::chrono::seconds(1) + lease_ / 50; }

  /// A generation begins, or was heard of. No other service has given its members a lease after `heard`.
  void OnGeneration(const Assignment& generation, TimePoint heard);
  /// The next one is about to begin after `before`.
  void OnFormed(const GenerationRecord& before, const Roster& roster, TimePoint now);
  /// The generation has made a step: all of its members are in it, and in no other one.
  void OnStep() { unsure_.clear(); }
  /// The member left with notice, or was sent away.
  void OnLeft(const std::string& node_id) { left_.insert(node_id); }
  /// No process of it is left.
  void OnDead(const std::string& node_id) { dead_.insert(node_id); }
  /// A worker of it has ended, or cannot go on in its generation.
  void OnBroken(const std::string& node_id) { broken_.insert(node_id); }
  /// An operator says that it never comes back.
  void OnEvicted(const std::string& node_id) { evicted_.insert(node_id); }
  /// It is not registered any more; it was heard last at `heard`.
  void OnLost(const std::string& node_id, TimePoint heard) { heard_[node_id] = heard; }
  /// These answered at their presence ports: if their hosts refuse later, they are dead.
  void OnProbed(const std::set<std::string>& alive);

  bool Gone(const std::string& node_id) const {
    return left_.contains(node_id) || dead_.contains(node_id) || evicted_.contains(node_id);
  }
  /// It holds for all of these.
  bool AreGone(const std::vector<Member>& members) const {
    return std::all_of(members.begin(), members.end(), [&](const Member& m) { return Gone(m.node_id); });
  }
  /// All for which it holds, each once.
  std::set<std::string> AllGone() const;
  /// It is gone, and is known to be in no generation after this one: others may be, before they die or an
  /// operator gives them up.
  bool Left(const std::string& node_id) const { return left_.contains(node_id); }
  bool Evicted(const std::string& node_id) const { return evicted_.contains(node_id); }
  bool AnyEvicted() const { return !evicted_.empty(); }
  bool Verified(const std::string& node_id) const { return verified_.contains(node_id); }
  const std::set<std::string>& verified() const { return verified_; }

  /// True where no generation is known.
  bool Over(const GenerationRecord& generation, const Roster& roster, TimePoint now) const {
    return FindRunning(generation, roster, now) == nullptr;
  }
  /// Why it may not be over, for people; nothing when it is.
  std::optional<std::string> WhyNot(const GenerationRecord& generation, const Roster& roster,
                                    TimePoint now) const;
  /// When it is over, as a lease of a member has ended; nothing when leases do not end.
  std::optional<TimePoint> FirstLeaseEnd(const GenerationRecord& generation, const Roster& roster) const;
  /// Members of the generation that runs whose stream has ended a moment ago, and that can prove to be dead.
  std::vector<std::string> Fallen(const GenerationRecord& generation, const Roster& roster) const;
  /// Presence ports to look at: of members that may still show that they answer, of those whose stream has
  /// ended, and of those that are missing.
  std::map<std::string, PresenceProbe> Request(const GenerationRecord& generation,
                                               const Roster& roster) const;

  /// The same of those that are not connected and may prove to be dead.
  std::map<std::string, PresenceProbe> Absent(const GenerationRecord& generation, const Roster& roster) const;

  std::string Describe() const;
  bool operator==(const Departures&) const = default;

 private:
  struct Unsure {
    Assignment generation;
    TimePoint since;  // no member has got a lease in it any more
    bool operator==(const Unsure&) const = default;
  };

  /// `may_come`: one that still ends its step counts where the next generation needs it.
  bool IsOut(const Member& member, const Roster& roster, bool may_come) const;
  bool AnyOut(const Assignment& generation, const Roster& roster, bool may_come) const;
  bool LastOver(const Assignment& last, const Roster& roster, TimePoint now, bool may_come) const;
  bool IsOver(const Unsure& before, const Roster& roster, TimePoint now, bool may_come) const;
  /// The last one, or one before it, that is not over for certain; null for none.
  const Assignment* FindRunning(const GenerationRecord& generation, const Roster& roster,
                                TimePoint now) const;
  bool IsFallen(const std::string& node_id, const Roster& roster) const;
  TimePoint HeardOf(const Member& member, const Roster& roster) const;
  std::optional<TimePoint> LeaseEnd(const Assignment& generation, const Roster& roster) const;

  Duration lease_;  // constant after construction; zero: leases do not end

  // Of the last generation.
  TimePoint began_;
  std::set<std::string> left_, dead_, broken_, evicted_;
  std::map<std::string, TimePoint> heard_;  // of members that were lost
  int looks_ = 0;
  std::set<std::string> verified_;
  std::vector<Unsure> unsure_;  // before it, may not be over; the members of none include another one's
};

}  // namespace mtrun::rendezvous

// Decides whether the last generation is over for certain: whether one of its members is out of it
// (docs/protocol.md, R2 and R3). Pure; a value, not thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/authority/generation_record.h"
#include "rendezvous/authority/roster.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class Departures {
 public:
  static constexpr size_t kMaxLooked = 8;  // members whose presence ports are probed; one suffices
  static constexpr int kMaxLooks = 3;      // probes of members that never answer, while the generation runs
  /// Advice for people about a member that does not come back.
  static constexpr char kAdvice[] = "if one never comes back: mtrun --evict NODE ENDPOINT";

  explicit Departures(const JobSettings& settings) : lease_(settings.fence_timeout) {}

  /// Returns the allowance for a slower clock of a node over a lease, and for a late message.
  Duration Margin() const { return std::chrono::seconds(1) + lease_ / 50; }

  /// Notes that a generation begins or is learned of. No other service gave it a lease after `heard`.
  void OnGeneration(const Assignment& generation, TimePoint heard);
  /// Notes that the next generation is about to begin after `before`.
  void OnFormed(const GenerationRecord& before, const Roster& roster, TimePoint now);
  /// Notes that the generation has made a step: all its members are in it, and in no other one.
  void OnStep() { unsure_.clear(); }
  /// Notes that the member left with notice, or was sent away.
  void OnLeft(const std::string& node_id) {
    left_.insert(node_id);
    lost_.erase(node_id);
  }
  /// Notes that no process of the member is left.
  void OnDead(const std::string& node_id) {
    dead_.insert(node_id);
    lost_.erase(node_id);
  }
  /// Notes that a worker of the member has ended, or cannot continue in its generation.
  void OnBroken(const std::string& node_id) { broken_.insert(node_id); }
  /// Notes that an operator says the member never comes back.
  void OnEvicted(const std::string& node_id) {
    evicted_.insert(node_id);
    lost_.erase(node_id);
  }
  /// Notes that the member is not registered any more; its last message came at `heard`.
  void OnLost(const std::string& node_id, TimePoint heard);
  /// Notes that the node is connected.
  void OnBack(const std::string& node_id) { lost_.erase(node_id); }
  /// Returns whether a lost node may come back and continue: its lease is not over, and it is not gone.
  bool AnyLost(TimePoint now) const;
  /// Notes that these answered at their presence ports: if their hosts refuse later, they are dead.
  void OnProbed(const std::set<std::string>& alive);

  bool Gone(const std::string& node_id) const {
    return left_.contains(node_id) || dead_.contains(node_id) || evicted_.contains(node_id);
  }
  /// True if all these members are gone.
  bool AreGone(const std::vector<Member>& members) const {
    return std::all_of(members.begin(), members.end(), [&](const Member& m) { return Gone(m.node_id); });
  }
  /// Returns all members that are gone, each once.
  std::set<std::string> AllGone() const;
  /// True if the member is gone and is in no later generation. A dead or evicted member may have joined one
  /// before.
  bool Left(const std::string& node_id) const { return left_.contains(node_id); }
  bool Evicted(const std::string& node_id) const { return evicted_.contains(node_id); }
  bool AnyEvicted() const { return !evicted_.empty(); }
  bool Verified(const std::string& node_id) const { return verified_.contains(node_id); }
  const std::set<std::string>& verified() const { return verified_; }

  /// Returns the last generation, or one before it, that is not over for certain (R2); null if all are, or if
  /// none is known.
  const Assignment* FindRunning(const GenerationRecord& generation, const Roster& roster,
                                TimePoint now) const;
  /// Returns why the next generation waits for the end of `running`, for people.
  std::string DescribeHold(const Assignment& running) const;
  /// Returns when the generation is over because a member's lease has ended; empty if leases do not end.
  std::optional<TimePoint> FirstLeaseEnd(const GenerationRecord& generation, const Roster& roster) const;
  /// Returns when no lease counts any more that was extended at `heard`; empty if leases do not end.
  std::optional<TimePoint> LeaseEndAfter(TimePoint heard) const {
    return lease_ == Duration::zero() ? std::nullopt : std::optional(heard + lease_ + Margin());
  }
  /// Returns the members of the running generation whose stream has just ended and that can be proven dead.
  std::vector<std::string> Fallen(const GenerationRecord& generation, const Roster& roster) const;
  /// Returns the presence ports to probe: those of members that have not answered yet, those of members whose
  /// stream has ended, and those of missing members.
  std::map<std::string, PresenceProbe> Request(const GenerationRecord& generation,
                                               const Roster& roster) const;
  /// Returns the presence ports of members of an ordinary program whose stream has ended: they are not lost with
  /// it (Suspects), so each one is probed.
  std::map<std::string, PresenceProbe> FallenOrdinary(const GenerationRecord& generation,
                                                      const Roster& roster) const;

  /// Returns the presence ports of members that are not connected and can be proven dead.
  std::map<std::string, PresenceProbe> Absent(const GenerationRecord& generation, const Roster& roster) const;

  std::string Describe() const;
  bool operator==(const Departures&) const = default;

 private:
  struct Unsure {
    Assignment generation;
    TimePoint since;  // no member has got a lease in it since then
    bool operator==(const Unsure&) const = default;
  };

  /// `may_come`: a member that still ends its step counts as out if the next generation needs it.
  bool IsOut(const Member& member, const Roster& roster, bool may_come) const;
  /// `lease_end`: when a member's lease in it has ended; empty if leases do not end.
  bool IsOver(const Assignment& generation, std::optional<TimePoint> lease_end, const Roster& roster,
              TimePoint now, bool may_come) const;
  bool IsFallen(const std::string& node_id, const Roster& roster) const;
  TimePoint HeardOf(const Member& member, const Roster& roster) const;
  std::optional<TimePoint> LeaseEnd(const Assignment& generation, const Roster& roster) const;

  Duration lease_;  // constant after construction; zero: leases do not end

  // State of the last generation.
  TimePoint began_;
  std::set<std::string> left_, dead_, broken_, evicted_;
  std::map<std::string, TimePoint> heard_;  // when lost members were last heard
  std::map<std::string, TimePoint> lost_;   // the same of nodes of any generation that are not back
  int looks_ = 0;
  std::set<std::string> verified_;
  std::vector<Unsure> unsure_;  // earlier, perhaps not over; none includes another one's members
};

}  // namespace mtrun::rendezvous

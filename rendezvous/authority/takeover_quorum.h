// Decides, for one of several services that may have the job, whether it may form the next generation, and
// which other service has the job instead: rules R4 to R11 of docs/protocol.md, "Who may form a generation".
// Pure; a value, not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/authority/formation_right.h"
#include "rendezvous/authority/member_count.h"
#include "rendezvous/authority/membership_view.h"
#include "rendezvous/authority/predecessors.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_run.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class TakeoverQuorum {
 public:
  static constexpr Duration kMaxAge = std::chrono::milliseconds(1400);  // less than half of recovery_window

  /// Describes the service itself, if its job has one endpoint.
  struct Role {
    std::string endpoint = {};  // the job's endpoint; "" if unknown
    bool embedded = false;      // it is part of an mtrun, and ends with it
    bool standby = false;       // it is not at the endpoint and serves only to take over
    bool operator==(const Role&) const = default;
  };

  explicit TakeoverQuorum(const JobSettings& settings) : TakeoverQuorum(settings, Role()) {}
  TakeoverQuorum(const JobSettings& settings, Role role);

  bool listed() const { return listed_; }  // there are other endpoints
  /// True if this is one of several services that may have the job.
  bool Applies(const GenerationRecord& generation) const;
  /// Returns the endpoints of all services that may have the job, in the order in which nodes try them; empty
  /// if this is the only service.
  std::vector<std::string> Endpoints(const GenerationRecord& generation) const;
  bool moved() const { return moved_; }  // the job was given up to another service

  /// Takes the others' answers as of `seen`. Another run with less proof than this one does not count there.
  void OnProbed(std::vector<PeerService> peers, const JobRun& run, TimePoint seen, TimePoint now);
  void OnMoved() { moved_ = true; }
  /// Notes that `last` was formed elsewhere and was learned of from others; `before` was the last one here.
  void OnLearned(const std::optional<Assignment>& before, const Assignment& last) {
    formed_here_ = false;
    spares_.clear();
    predecessors_.OnLearned(before, last);
  }
  /// Takes the services of nodes that were outside of the last generation, which was written down here, by id.
  void OnRemembered(std::map<std::string, std::string> spares) { spares_ = std::move(spares); }
  /// Notes that `next`, formed here, follows the last generation. Returns the earlier ones to send with it.
  std::vector<EarlierGeneration> OnFollowed(const MembershipView& view, const Assignment& next);
  /// The generations before the last one that another service can still follow.
  Predecessors& predecessors() { return predecessors_; }
  const Predecessors& predecessors() const { return predecessors_; }

  /// True if the other services decide where the job is, because no member can (R5, R6).
  bool DecidedByServices(const MembershipView& view) const { return DeciderOf(view) == Decider::kServices; }
  /// True if a generation is known of which no member is left, here or at another service.
  bool NothingLeft(const MembershipView& view, TimePoint now) const;
  /// True if the answers of the other services are too old for R5 and R6.
  bool Stale(TimePoint now) const { return now - seen_at_ > kMaxAge; }
  /// When another service was last found gone, back, or without the job that it had: nodes of its job may be
  /// on their way here. Empty if none has changed since it was first seen.
  std::optional<TimePoint> changed_at() const { return changed_at_; }

  /// Returns whether this service may change the membership (R4 to R8). Cheap enough for every event.
  FormationRight Authority(const MembershipView& view) const;
  /// Returns whether it may form a generation of `nodes` (R4 to R10).
  FormationRight RightToForm(const std::vector<std::string>& nodes, const MembershipView& view);
  /// Returns the members of the last generation that may be alive and are not registered here, and those of
  /// earlier generations if RightToForm waits for them.
  std::vector<const Member*> Unaccounted(const MembershipView& view) const;
  /// Returns the service that has the job instead of this one, by the latest answers (R11); null if this one
  /// keeps it.
  const PeerService* FindSuccessor(const MembershipView& view) const;
  /// Returns the service at which this run has ended, or another run with more proof has begun; null if none
  /// is known. If this service has `authority`, an end elsewhere counts only if no node can have continued
  /// here since: all members of the last generation finished there, or it had a newer one.
  const PeerService* FindWhereOver(const GenerationRecord& generation, const JobRun& run, bool authority,
                                   TimePoint now) const;
  /// Returns the presence ports of members that are not accounted for.
  std::map<std::string, PresenceProbe> Missing(const MembershipView& view) const;

  std::string Describe() const;
  bool operator==(const TakeoverQuorum&) const = default;

 private:
  enum class Decider { kThisService, kServices, kMembers };
  Decider DeciderOf(const MembershipView& view) const;
  FormationRight RightToBegin() const;
  FormationRight RightToBeginAgain(const MembershipView& view) const;
  /// R6: true if the service is that of a remembered spare that has yet to say here what it knows.
  bool IsUnheardSpare(const std::string& endpoint, const MembershipView& view) const;
  /// R8: true if a dead host may have lost all members here before its death, and have continued with others.
  bool HostMayHaveContinued(const MembershipView& view) const;
  /// Counts members as here unless their ranks are in `absent`, which may include members that are gone.
  static MemberCount Count(const MembershipView& view, const std::set<int>& absent);
  /// Services of a list may know different generations, so they cannot rely on the lowest rank.
  bool HalvesSuffice() const { return !listed_; }

  // Constant after construction.
  std::vector<std::string> listed_endpoints_;
  bool listed_, takeover_any_, takeover_majority_;
  Role role_;

  std::vector<PeerService> peers_;  // the latest answers, in the order of the list
  TimePoint seen_at_;
  std::optional<TimePoint> changed_at_;
  bool moved_ = false, formed_here_ = false;
  std::map<std::string, std::string> spares_;  // R6: services by node id
  Predecessors predecessors_;
  bool awaits_earlier_ = false;  // whether RightToForm waits for members of predecessors_
};

}  // namespace mtrun::rendezvous

// Views of a job's state: deadlines, invariants, and the status for people.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "rendezvous/job/node_views.h"
#include "rendezvous/job/state_machine.h"
#include "rendezvous/wire/until.h"
#include "rendezvous/wire/validate_assignment.h"

namespace mtrun::rendezvous {

std::optional<ProbeRequest> JobMachine::WantsProbe() const {
  if (quorum_.moved()) return std::nullopt;
  ProbeRequest request;
  request.job_id = settings_.job_id;
  if (outcome_) {
    request.members = departures_.Absent(generation_, roster_);
    return request.members.empty() ? std::nullopt : std::optional(request);
  }
  request.endpoints = quorum_.Endpoints(generation_);
  if (quorum_.Applies(generation_)) {
    request.members = quorum_.Missing(membership());
    request.members.merge(departures_.FallenOrdinary(generation_, roster_));
  } else {
    request.members = departures_.Request(generation_, roster_);
  }
  const bool nobody = roster_.empty() && !generation_.known();
  if (nobody || (request.endpoints.empty() && request.members.empty())) return std::nullopt;
  request.generation = generation_.id();
  request.incarnation = run_.incarnation();
  request.authority = HasAuthority();
  return request;
}

Duration JobMachine::ProbeInterval() const {
  // A stream has just ended, and the node may be dead.
  const Attendance& attendance = roster_.attendance();
  const bool ordinary = generation_.running() && attendance.ordinary();
  if (ordinary && attendance.fallen().size() > suspects_.fallen()) return kQuickProbe;
  if (!quorum_.Applies(generation_) && !departures_.Fallen(generation_, roster_).empty()) return kQuickProbe;
  const bool by_members = quorum_.listed() && !quorum_.DecidedByServices(membership());
  const bool settled = by_members && HasAuthority() && quorum_.Missing(membership()).empty();
  return settled && suspects_.empty() && !end_check_.waits() ? kRareProbe : kOftenProbe;
}

bool JobMachine::Gone() const {
  return roster_.empty() && (outcome_ || !generation_.known() || quorum_.moved());
}

Generation JobMachine::RunBy(const std::string& node_id) const {
  const RosterNode* node = roster_.Find(node_id);
  const bool runs = node != nullptr && node->confirmed && generation_.FindRunning(node_id) != nullptr;
  return runs ? generation_.id() : Generation{};
}

Lease JobMachine::LeaseFor(const std::string& node_id, Duration sent, TimePoint now) const {
  if (!HasAuthority()) return Lease{.sent = sent};
  const Generation runs = RunBy(node_id);
  const bool waits = runs.number == 0 && !outcome_ && now >= RecoveryEnds();
  return {.sent = sent,
          .generation = runs,
          .authority = true,
          .settled = quorum_.predecessors().empty() ? generation_.id() : Generation{},
          .newest = waits ? generation_.id() : Generation{}};
}

TimePoint JobMachine::RecoveryEnds() const {
  TimePoint since = options_.service_started;
  // Any of several services may have the job, or may have had it until just now.
  if (quorum_.listed())
    since = std::max({since, options_.returned, quorum_.changed_at().value_or(options_.returned)});
  return since + options_.recovery_window;
}

std::vector<const Member*> JobMachine::AwaitedMembers() const {
  std::vector<const Member*> members;
  if (!generation_.known()) return members;
  for (const Member& member : generation_.last()->members) members.push_back(&member);
  for (const Member* earlier : quorum_.predecessors().Remaining(departures_)) {
    if (generation_.FindLast(earlier->node_id) == nullptr) members.push_back(earlier);
  }
  return members;
}

bool JobMachine::IsKnownToRun() const {
  const auto& last = generation_.last();
  // Usually true for the first member.
  return generation_.running() &&
         std::any_of(last->members.begin(), last->members.end(),
                     [&](const Member& member) { return RunBy(member.node_id) == last->generation; });
}

std::optional<TimePoint> JobMachine::NextDeadline() const {
  if (outcome_) return roster_.empty() ? std::nullopt : linger_ends_;
  std::optional<TimePoint> next = roster_.NextLoss();
  // No node is left: a generation that may still run is remembered for as long as it may.
  if (!next && quorum_.Applies(generation_)) return std::nullopt;
  if (!next) return departures_.FirstLeaseEnd(generation_, roster_);
  if (!failing_) next = Earlier(next, separations_.NextDeadline());
  if (!generation_.running()) next = Earlier(next, timers_.NextDeadline(!generation_.known()));
  if (failing_) {
    next = Earlier(next, failing_->due());
  } else if (!roster_.OfOtherRuns(run_, generation_).empty()) {
    next = Earlier(next, run_.excludes_from());
  }
  return Earlier(Earlier(next, end_check_.due()), news_.due());
}

void JobMachine::CheckInvariants(bool all) const {
  MT_CHECK(budget_.Valid()) << budget_.Describe();
  MT_CHECK(!outcome_ || (!failing_ && !generation_.running())) << settings_.job_id;
  MT_CHECK(generation_.id().number <= generation_.number()) << generation_.Describe();
  MT_CHECK(generation_.running() || (generation_.finished().empty() && store_.waiters().empty()))
      << settings_.job_id;
  if (!all) return;
  MT_CHECK(roster_.Consistent(generation_.last())) << "the indexes are not those of the nodes";
  if (!generation_.running()) return;
  const std::vector<Member>& members = generation_.last()->members;
  const absl::Status valid = ValidateAssignment(*generation_.last());
  MT_CHECK(valid.ok()) << valid.message();
  MT_CHECK(members.size() >= static_cast<size_t>(settings_.min_nodes) &&
           members.size() <= static_cast<size_t>(settings_.max_nodes))
      << members.size() << " members";
  for (const Member& member : members) {
    if (failing_) break;  // losses do not matter any more: the job is about to end
    const RosterNode* node = roster_.Find(member.node_id);
    MT_CHECK(node != nullptr || generation_.HasFinished(member.node_id)) << member.node_id << " is gone";
    MT_CHECK(node == nullptr || !node->offered) << member.node_id << " runs and offers";
  }
  for (const std::string& node_id : generation_.finished())
    MT_CHECK(generation_.FindRunning(node_id) != nullptr) << node_id << " finished and is no member";
  for (const auto& waiter : store_.waiters()) {
    MT_CHECK(Has(waiter.node_id) && generation_.FindRunning(waiter.node_id) != nullptr)
        << waiter.node_id << " waits and is no member";
  }
}

JobView JobMachine::View(TimePoint now) const {
  JobView view;
  view.settings = settings_;
  view.phase = outcome_ ? "ended" : generation_.running() ? "running" : "forming";
  view.reason = reason_;
  view.generation = generation_.id();
  view.restart_count = budget_.used();
  view.authority = HasAuthority();
  view.incarnation = run_.incarnation();
  view.proof = Proof(now);
  view.phase_age = now - phase_since_.value_or(now);
  view.nodes = MakeNodeViews(roster_, generation_, outcome_.has_value(), now);
  return view;
}

std::string JobMachine::Describe(TimePoint now) const {
  std::string text = absl::StrCat(View(now).phase, ", ", generation_.Describe(), ", ", budget_.Describe(),
                                  progressed_ ? ", progressed" : "", "\n");
  const auto add = [&](const std::string& line) {
    if (!line.empty()) absl::StrAppend(&text, "  ", line, "\n");
  };
  if (generation_.known()) add(absl::StrCat("last ", rendezvous::Describe(*generation_.last())));
  if (failing_) add(failing_->Describe(now));
  add(backoff_.Describe(now));
  add(streak_.Describe(now));
  add(separations_.Describe(now));
  add(suspects_.Describe());
  add(end_check_.Describe(now));
  if (outcome_) add(absl::StrCat("outcome ", rendezvous::Describe(*outcome_)));
  if (generation_.known()) add(departures_.Describe());
  if (!quorum_.Endpoints(generation_).empty()) add(quorum_.Describe());
  add(absl::StrCat(timers_.Describe(!generation_.known(), now), ", linger ", Until(linger_ends_, now), ", ",
                   news_.Describe(now)));
  absl::StrAppend(&text, roster_.Describe(now));
  for (const auto& [key, value] : store_.values()) add(absl::StrCat("store ", key, "=", value));
  for (const auto& waiter : store_.waiters()) {
    add(absl::StrCat(waiter.node_id, " waits for ", absl::StrJoin(waiter.keys, ","), " id ", waiter.id));
  }
  return text;
}

}  // namespace mtrun::rendezvous

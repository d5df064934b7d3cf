// Calls of clients without a session: status, control, logs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/job/control_choice.h"
#include "rendezvous/service/registrar.h"

namespace mtrun::rendezvous {
namespace {

constexpr size_t kFewNodes = 8;  // for a job that one event may empty

/// Returns the view of a job that all nodes have left before its end.
JobView ShownAsEnded(JobView job) {
  job.phase = "ended";
  job.reason = "its last node is gone";
  for (NodeView& node : job.nodes) {
    node.state = "gone";
    node.node_rank = node.first_rank = -1;
  }
  return job;
}

}  // namespace

void Registrar::FillStatus(wire::StatusReply& reply) const {
  const TimePoint now = MonotonicNow();
  reply.set_protocol(kProtocolVersion);
  reply.set_uptime_ns((now - started_).count());
  reply.set_wall_clock_ns(WallClockNs());
  for (const auto& [job_id, job] : jobs_.jobs()) EncodeJobView(job.View(now), reply.add_jobs());
  for (const JobTable::Forgotten& forgotten : jobs_.forgotten()) {
    wire::ForgottenJob* job = reply.add_forgotten();
    job->set_job_id(forgotten.job_id);
    job->set_last_number(forgotten.last_number);
  }
  for (const auto& [job_id, runs] : jobs_.EndedRuns()) {
    for (const EndedRun& run : runs) {
      wire::EndedRun* ended = reply.add_ended();
      ended->set_job_id(job_id);
      ended->set_incarnation(run.incarnation);
      ended->set_last_number(run.last_number);
      ended->set_success(run.success);
    }
  }
  for (const auto& [job_id, endpoint] : places_.All(now)) {
    const auto job = jobs_.jobs().find(job_id);
    if (job != jobs_.jobs().end() && !job->second.outcome()) continue;
    wire::JobPlace* place = reply.add_elsewhere();
    place->set_job_id(job_id);
    place->set_endpoint(endpoint);
  }
}

Registrar::Before Registrar::LookBefore(const std::string& job_id) const {
  const auto job = jobs_.jobs().find(job_id);
  if (job == jobs_.jobs().end()) return {};
  Before before{
      .had = true, .had_ended = job->second.outcome().has_value(), .run = job->second.incarnation()};
  // An embedded service ends with its mtrun, so no client looks at it later.
  if (!options_.embedded && job->second.roster().size() <= kFewNodes)
    before.last = job->second.View(MonotonicNow());
  return before;
}

void Registrar::NoteEnd(const std::string& job_id, const Before& before) {
  const TimePoint now = MonotonicNow();
  const auto job = jobs_.jobs().find(job_id);
  if (job == jobs_.jobs().end()) {
    if (before.had && !before.had_ended && before.last) watch_state_.OnEnded(ShownAsEnded(*before.last), now);
    return;
  }
  if (!before.had) watch_state_.OnBegun(job_id);
  if (job->second.outcome() && !before.had_ended) watch_state_.OnEnded(job->second.View(now), now);
}

void Registrar::CheckEnds() {
  const auto has_ended = [](const auto& job) { return job.second.outcome().has_value(); };
  if (!ends_.empty() && std::ranges::all_of(jobs_.jobs(), has_ended)) ends_.OnEnded();
}

void Registrar::AwaitEnd(EndCalls::Call call) {
  ends_.Add(std::move(call));
  CheckEnds();
}

void Registrar::Watch(wire::WatchReply& reply) {
  const TimePoint now = MonotonicNow();
  if (const auto question = watch_state_.OnWatched(now)) {
    for (const auto& [key, session] : sessions_) {
      // Not sent to agents that are away or behind, whose queues must not grow by this.
      if (session->stream && session->end.sender.kept().empty()) Send(*session, UseAsked{*question});
    }
  }
  FillStatus(*reply.mutable_status());
  for (const WatchedNode& node : watch_state_.Uses(now)) EncodeWatchedNode(node, reply.add_nodes());
  for (const Happening& happening : watch_state_.Happenings())
    EncodeHappening(happening, reply.add_happenings());
  for (const WatchState::Ended& ended : watch_state_.EndedJobs(now)) {
    if (jobs_.jobs().contains(ended.job.settings.job_id)) continue;
    EncodeJobView(ended.job, reply.add_ended());
    reply.add_ended_age_ns((now - ended.at).count());
  }
}

void Registrar::Control(const ControlKind& what, const std::string& address,
                        const wire::ControlRequest& request, wire::ControlReply& reply) {
  const absl::StatusOr<ControlQuestion> question = DecodeControl(what, request, address);
  if (!question.ok()) return reply.set_text(std::string(question.status().message()));
  const absl::StatusOr<ControlDecision> decision = DecideControl(*question, jobs_.jobs(), MonotonicNow());
  const auto* evict = std::get_if<EvictCall>(&question->what);
  const bool may_be_host = evict != nullptr && options_.evict_host;
  if (may_be_host && absl::IsNotFound(decision.status())) return EvictHostOf(*question, evict->node, reply);
  reply.set_has_job(!absl::IsNotFound(decision.status()));
  if (!reply.has_job()) {
    reply.set_elsewhere(places_.Of(question->job_id, MonotonicNow()));
    return reply.set_text(places_.Explain(decision.status(), question->job_id, MonotonicNow()));
  }
  if (!decision.ok()) return reply.set_text(std::string(decision.status().message()));
  // A member that was told a moment before may have brought its job here. The agent of this service still
  // waits for the host, and only learns here that it need not.
  if (may_be_host) options_.evict_host(decision->job_id, evict->node).IgnoreError();
  Step(decision->job_id, Event{"", decision->event});
  reply.set_done(true);
  reply.set_generation(decision->generation);
  reply.set_text(DescribeControl(*decision, jobs_.jobs(), MonotonicNow()));
}

/// The host has the job. The agent of this service turns to the services of the members, maybe to this one,
/// as do other agents with the same notice.
void Registrar::EvictHostOf(const ControlQuestion& question, const std::string& node,
                            wire::ControlReply& reply) {
  const absl::StatusOr<Eviction> eviction = options_.evict_host(question.job_id, node);
  reply.set_has_job(!absl::IsNotFound(eviction.status()));
  if (!eviction.ok()) return reply.set_text(std::string(eviction.status().message()));
  pending_evictions_.insert_or_assign(eviction->job_id, PendingEviction{*eviction, question.by});
  reply.set_done(true);
  reply.set_generation(eviction->generation.number);
  reply.set_text(absl::StrCat(eviction->name, " is evicted from generation ", eviction->generation.number,
                              " of ", QuotedJob(eviction->job_id),
                              ": nodes that learn of this continue without its service"));
}

void Registrar::SayWord(const std::string& job_id) {
  const auto pending = pending_evictions_.find(job_id);
  const auto job = jobs_.jobs().find(job_id);
  if (pending == pending_evictions_.end() || job == jobs_.jobs().end()) return;
  const Eviction& meant = pending->second.eviction;
  if (job->second.generation().id() != meant.generation) return;
  const TimePoint now = MonotonicNow();
  const absl::StatusOr<Eviction> eviction = ChooseMember(job->second, meant.node_id, now);
  const Requester by = pending->second.by;
  pending_evictions_.erase(pending);
  if (eviction.ok()) Perform(jobs_.Step(job_id, Event{"", EvictionEvent(*eviction, by)}, now));
}

void Registrar::Logs(const std::string& address, const wire::LogsRequest& request, wire::LogsReply& reply,
                     LogCalls::Done done) {
  absl::StatusOr<LogRequest> read = DecodeLogsRequest(request, address);
  if (!read.ok()) return done(LogPart{.error = std::string(read.status().message())});
  const absl::StatusOr<RankPlace> place = FindRank(jobs_.jobs(), request.job_id(), read->rank);
  if (absl::IsNotFound(place.status())) {
    reply.set_elsewhere(places_.Of(request.job_id(), MonotonicNow()));
    return done(LogPart{.error = places_.Explain(place.status(), request.job_id(), MonotonicNow())});
  }
  if (!place.ok()) return done(LogPart{.error = std::string(place.status().message())});
  const auto session = sessions_.find({place->job_id, place->node_id});
  if (session == sessions_.end()) return done(LogPart{.error = absl::StrCat(place->name, " is not here")});
  const auto id = logs_.Add(place->node_id, place->name, done);
  if (!id) return done(LogPart{.error = "too many requests for logs at once; try again"});
  read->id = *id;
  Send(*session->second, *read);
}

}  // namespace mtrun::rendezvous

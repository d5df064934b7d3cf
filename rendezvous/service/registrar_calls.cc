// Calls of those who have no session: status, control, logs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/control_choice.h"
#include "rendezvous/service/registrar.h"

namespace mtrun::rendezvous {
namespace {

constexpr size_t kFewNodes = 8;  // of a job that one event may empty

/// What is shown of a job that all nodes have left, none of them at its end.
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

std::vector<std::string> Registrar::Untold() const { return jobs_.InEnded(); }

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
}

Registrar::Before Registrar::LookBefore(const std::string& job_id) const {
  const auto job = jobs_.jobs().find(job_id);
  if (job == jobs_.jobs().end()) return {};
  Before before{
      .had = true, .had_ended = job->second.outcome().has_value(), .run = job->second.incarnation()};
  // An embedded service ends with its mtrun: nobody looks at it later.
  if (!options_.embedded && job->second.roster().size() <= kFewNodes)
    before.last = job->second.View(MonotonicNow());
  return before;
}

void Registrar::NoteEnd(const std::string& job_id, const Before& before) {
  const TimePoint now = MonotonicNow();
  const auto job = jobs_.jobs().find(job_id);
  if (job == jobs_.jobs().end()) {
    if (before.had && !before.had_ended && before.last) lookout_.OnEnded(ShownAsEnded(*before.last), now);
    return;
  }
  if (!before.had) lookout_.OnBegun(job_id);
  if (job->second.outcome() && !before.had_ended) lookout_.OnEnded(job->second.View(now), now);
}

bool Registrar::AllEnded() const {
  return std::all_of(jobs_.jobs().begin(), jobs_.jobs().end(),
                     [](const auto& job) { return job.second.outcome().has_value(); });
}

void Registrar::CheckEnds() {
  if (!ends_.empty() && AllEnded()) ends_.OnEnded();
}

void Registrar::AwaitEnd(EndCalls::Call call) {
  ends_.Add(std::move(call));
  CheckEnds();
}

void Registrar::Watch(wire::WatchReply& reply) {
  const TimePoint now = MonotonicNow();
  if (const auto question = lookout_.OnWatched(now)) {
    for (const auto& [key, session] : sessions_) {
      // What waits for an agent that is away is not to grow by this, nor of one that is behind.
      if (session->stream && session->end.sender.kept().empty()) Send(*session, UseAsked{*question});
    }
  }
  FillStatus(*reply.mutable_status());
  for (const WatchedNode& node : lookout_.Uses(now)) EncodeWatchedNode(node, reply.add_nodes());
  for (const Happening& happening : lookout_.Happenings()) EncodeHappening(happening, reply.add_happenings());
  for (const Lookout::Ended& ended : lookout_.EndedJobs(now)) {
    if (jobs_.jobs().contains(ended.job.settings.job_id)) continue;
    EncodeJobView(ended.job, reply.add_ended());
    reply.add_ended_age_ns((now - ended.at).count());
  }
}

void Registrar::Control(const std::string& call, const std::string& address,
                        const wire::ControlRequest& request, wire::ControlReply& reply) {
  const absl::StatusOr<ControlQuestion> question = DecodeControl(call, request, address);
  if (!question.ok()) return reply.set_text(std::string(question.status().message()));
  const absl::StatusOr<ControlDecision> decision = DecideControl(*question, jobs_.jobs(), MonotonicNow());
  const bool elsewhere = absl::IsNotFound(decision.status()) && question->call == ControlCall::kEvict;
  if (elsewhere && options_.evict_host) return EvictHostOf(*question, reply);
  reply.set_has_job(!absl::IsNotFound(decision.status()));
  if (!decision.ok()) return reply.set_text(std::string(decision.status().message()));
  // A member that was told a moment before may have brought its job here; the agent here still waits for the
  // host, and hears from nobody else that it need not.
  if (question->call == ControlCall::kEvict && options_.evict_host)
    options_.evict_host(decision->job_id, question->node).IgnoreError();
  Step(decision->job_id, Event{"", decision->event});
  reply.set_done(true);
  reply.set_generation(decision->generation);
  reply.set_text(DescribeControl(*decision, jobs_.jobs(), MonotonicNow()));
}

/// The job is where its host is. The agent here turns to the services of the members, maybe to this one, and
/// so do others that are told the same.
void Registrar::EvictHostOf(const ControlQuestion& question, wire::ControlReply& reply) {
  const absl::StatusOr<Eviction> eviction = options_.evict_host(question.job_id, question.node);
  reply.set_has_job(!absl::IsNotFound(eviction.status()));
  if (!eviction.ok()) return reply.set_text(std::string(eviction.status().message()));
  words_.insert_or_assign(eviction->job_id, Word{*eviction, question.by});
  reply.set_done(true);
  reply.set_generation(eviction->generation.number);
  reply.set_text(absl::StrCat(eviction->name, " is evicted from generation ", eviction->generation.number,
                              " of ", QuotedJob(eviction->job_id),
                              ": nodes that hear this go on without its service"));
}

void Registrar::SayWord(const std::string& job_id) {
  const auto word = words_.find(job_id);
  const auto job = jobs_.jobs().find(job_id);
  if (word == words_.end() || job == jobs_.jobs().end()) return;
  const Eviction& meant = word->second.eviction;
  if (job->second.generation().id() != meant.generation) return;
  const TimePoint now = MonotonicNow();
  const absl::StatusOr<Eviction> eviction = ChooseMember(job->second, meant.node_id, now);
  const Requester by = word->second.by;
  words_.erase(word);
  if (eviction.ok()) Perform(jobs_.Step(job_id, Event{"", EvictionEvent(*eviction, by)}, now));
}

void Registrar::Logs(const std::string& address, const wire::LogsRequest& request, LogCalls::Done done) {
  absl::StatusOr<LogRequest> read = DecodeLogsRequest(request, address);
  if (!read.ok()) return done(LogPart{.error = std::string(read.status().message())});
  const absl::StatusOr<RankPlace> place = FindRank(jobs_.jobs(), request.job_id(), read->rank);
  if (!place.ok()) return done(LogPart{.error = std::string(place.status().message())});
  const auto session = sessions_.find({place->job_id, place->node_id});
  if (session == sessions_.end()) return done(LogPart{.error = absl::StrCat(place->name, " is not here")});
  const auto id = logs_.Add(place->node_id, place->name, done);
  if (!id) return done(LogPart{.error = "too many ask for logs at once; try again"});
  read->id = *id;
  Send(*session->second, *read);
}

}  // namespace mtrun::rendezvous

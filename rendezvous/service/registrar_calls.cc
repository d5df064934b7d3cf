// Calls of those who have no session: status, control, logs.
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/control_choice.h"
#include "rendezvous/service/registrar.h"

namespace mtrun::rendezvous {

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
}

void Registrar::Control(const std::string& call, const std::string& address,
                        const wire::ControlRequest& request, wire::ControlReply& reply) {
  const absl::StatusOr<ControlQuestion> question = DecodeControl(call, request, address);
  if (!question.ok()) return reply.set_text(std::string(question.status().message()));
  const absl::StatusOr<ControlDecision> decision = DecideControl(*question, jobs_.jobs(), MonotonicNow());
  reply.set_has_job(!absl::IsNotFound(decision.status()));
  if (!decision.ok()) return reply.set_text(std::string(decision.status().message()));
  Step(decision->job_id, Event{"", decision->event});
  reply.set_done(true);
  reply.set_generation(decision->generation);
  reply.set_text(DescribeControl(*decision, jobs_.jobs(), MonotonicNow()));
}

void Registrar::Logs(const wire::LogsRequest& request, LogCalls::Done done) {
  absl::StatusOr<LogRequest> read = DecodeLogsRequest(request);
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

#include "launcher/observe/event_log.h"

#include <errno.h>
#include <fcntl.h>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/signal_name.h"

namespace mtrun::launcher {
namespace {

using nlohmann::json;
using Record = std::optional<json>;

/// Makes no record for events that are not listed below.
template <typename Other>
Record Make(const Other&) {
  return std::nullopt;
}

Record Make(const SessionConnected&) { return json{{"event", "rendezvous_connected"}}; }
Record Make(const SessionDisconnected& e) { return json{{"event", "rendezvous_lost"}, {"why", e.why}}; }
Record Make(const SessionFailed& e) { return json{{"event", "rendezvous_failed"}, {"why", e.why}}; }
Record Make(const SignalReceived& e) {
  return json{{"event", "signal_received"}, {"signal", SignalName(e.signal)}};
}
Record Make(const PreemptFileAppeared&) { return json{{"event", "preempt_file_appeared"}}; }

Record Make(const WorkerExited& e) {
  json record = {{"event", "worker_exited"}, {"local_rank", e.local_rank}, {"pid", e.pid}};
  if (e.signal != 0) {
    record["signal"] = SignalName(e.signal);
  } else {
    record["exit_code"] = e.exit_code;
  }
  if (!e.message.empty()) record["message"] = e.message;
  return record;
}

Record Make(const rendezvous::Assigned& e) {
  json nodes = json::array();
  for (const rendezvous::Member& member : e.assignment().members) {
    nodes.push_back({{"host", member.host},
                     {"node_rank", member.node_rank},
                     {"first_rank", member.first_rank},
                     {"workers", member.workers}});
  }
  return json{{"event", "generation_assigned"},
              {"generation", e.assignment().generation.number},
              {"generation_id", channel::ToText(e.assignment().generation)},
              {"world_size", e.assignment().world_size},
              {"nodes", std::move(nodes)}};
}
Record Make(const rendezvous::GenerationDissolved& e) {
  return json{{"event", "generation_dissolved"},
              {"generation", e.generation.number},
              {"generation_id", channel::ToText(e.generation)},
              {"reason", Describe(e.cause)},
              {"restart_count", e.restart_count}};
}
Record Make(const rendezvous::Waiting& e) { return json{{"event", "waiting"}, {"text", e.text}}; }
json CallRecord(const std::string& call, const rendezvous::Requester& by) {
  return {{"event", "control_call"},
          {"call", call},
          {"by", {{"user", by.user}, {"host", by.host}, {"pid", by.pid}, {"address", by.address}}}};
}
Record Make(const rendezvous::ControlCall& e) {
  json record = CallRecord(NameOf(e.what), e.by);
  const auto add = [&record](const auto& call) {
    if constexpr (requires { call.node; }) record["node"] = call.node;
    if constexpr (requires { call.checkpoint; }) record["checkpoint"] = call.checkpoint;
    if constexpr (requires { call.age; }) {
      if (call.age > Duration::zero()) record["age_s"] = ToSeconds(call.age);
    }
  };
  std::visit(add, e.what);
  return record;
}
/// A client that follows a log repeats its request: only the first one is recorded.
Record Make(const rendezvous::LogRequest& e) {
  if (!e.attempt.empty()) return std::nullopt;
  json record = CallRecord("logs", e.by);
  record["rank"] = e.rank;
  return record;
}
Record Make(const rendezvous::Refused& e) { return json{{"event", "refused"}, {"reason", WhyRefused(e)}}; }

Record Make(const rendezvous::JobEnded& e) {
  json record = {{"event", "job_ended"},
                 {"success", e.outcome.success},
                 {"exit_code", e.outcome.exit_code},
                 {"reason", WhyEnded(e.outcome)}};
  if (const auto& cause = e.outcome.root_cause) {
    record["root_cause"] = {
        {"host", cause->host},      {"rank", cause->rank},           {"local_rank", cause->local_rank},
        {"pid", cause->pid},        {"exit_code", cause->exit_code}, {"signal", cause->signal},
        {"time", cause->wall_time}, {"log_file", cause->log_file}};
  }
  return record;
}

Record Make(const rendezvous::ServiceEvent& event) {
  return std::visit([](const auto& e) { return Make(e); }, event);
}

Record Make(const StartWorkers& e) {
  const rendezvous::Member& self = e.assignment.members[e.member];
  return json{{"event", "workers_started"},
              {"generation", e.assignment.generation.number},
              {"generation_id", channel::ToText(e.assignment.generation)},
              {"local_ranks", e.local_ranks},
              {"node_rank", self.node_rank},
              {"nodes", e.assignment.members.size()},
              {"first_rank", self.first_rank},
              {"workers", self.workers},
              {"world_size", e.assignment.world_size},
              {"master_address", e.assignment.master_address},
              {"master_port", e.assignment.master_port},
              {"restart_count", e.assignment.restart_count}};
}
Record Make(const SignalWorkers& e) {
  return json{{"event", "workers_signalled"}, {"signal", SignalName(e.signal)}};
}
Record Make(const Exit& e) { return json{{"event", "exit"}, {"code", e.code}}; }

}  // namespace

std::optional<nlohmann::json> RecordOf(const Event& event) {
  return std::visit([](const auto& e) { return Make(e); }, event);
}

std::optional<nlohmann::json> RecordOf(const Effect& effect) {
  return std::visit([](const auto& e) { return Make(e); }, effect);
}

absl::StatusOr<EventLog> EventLog::Open(const std::string& path, std::string host, std::string run_id) {
  EventLog log;
  if (path.empty()) return log;
  log.file_ = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.file_.valid()) return ErrnoStatus(errno, absl::StrCat("--event_log: open ", path));
  log.path_ = path;
  log.host_ = std::move(host);
  log.run_id_ = std::move(run_id);
  return log;
}

void EventLog::Append(nlohmann::json record) {
  record["time"] = WallClockText();
  record["host"] = host_;
  record["run_id"] = run_id_;
  // A worker's error text is not always UTF-8.
  const absl::Status written = WriteAll(file_.get(), JsonLine(record));
  if (!written.ok() && !std::exchange(complained_, true))
    log::Warning("--event_log ", path_, ": ", written.message(), "; some events are lost");
}

}  // namespace mtrun::launcher

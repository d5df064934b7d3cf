#include "rendezvous/codec_parts.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rendezvous/formation.h"

namespace mtrun::rendezvous::codec {

absl::Status Range(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", ", low, " to ", high, " are allowed"));
}

absl::Status Length(absl::string_view field, const std::string& value, size_t low, size_t high) {
  if (value.size() >= low && value.size() <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", value.size(), " bytes, ", low, " to ", high, " are allowed"));
}

std::string Utf8(const std::string& text) {
  std::string clean;
  for (const char c : text) clean += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  return clean.substr(0, kMaxName);
}

std::string Bounded(const std::string& text) { return text.substr(0, kMaxText); }

void Encode(const Generation& generation, wire::Generation* out) {
  out->set_number(generation.number);
  out->set_id(generation.id);
}

absl::StatusOr<Generation> Decode(const wire::Generation& in) {
  if (in.number() > kMaxGenerationNumber) {
    return absl::InvalidArgumentError(absl::StrCat("generation number is ", in.number(), ", at most ",
                                                   kMaxGenerationNumber, " is allowed"));
  }
  return Generation{in.number(), in.id()};
}

void Encode(const JobSettings& s, wire::JobSettings* out) {
  out->set_job_id(Utf8(s.job_id));
  out->set_min_nodes(s.min_nodes);
  out->set_max_nodes(s.max_nodes);
  out->set_max_restarts(s.max_restarts);
  out->set_last_call_ns(s.last_call.count());
  out->set_heartbeat_interval_ns(s.heartbeat_interval.count());
  out->set_heartbeats_missed(s.heartbeats_missed);
  out->set_reconnect_grace_ns(s.reconnect_grace.count());
  out->set_join_timeout_ns(s.join_timeout.count());
  out->set_refund_steps(s.refund_steps);
  for (const std::string& endpoint : s.endpoints) out->add_endpoints(Utf8(endpoint));
  out->set_takeover_any(s.takeover_any);
  out->set_min_nodes_timeout_ns(s.min_nodes_timeout.count());
}

JobSettings Decode(const wire::JobSettings& in) {
  JobSettings s;
  s.job_id = in.job_id();
  s.min_nodes = in.min_nodes();
  s.max_nodes = in.max_nodes();
  s.max_restarts = in.max_restarts();
  s.last_call = Duration(in.last_call_ns());
  s.heartbeat_interval = Duration(in.heartbeat_interval_ns());
  s.heartbeats_missed = in.heartbeats_missed();
  s.reconnect_grace = Duration(in.reconnect_grace_ns());
  s.join_timeout = Duration(in.join_timeout_ns());
  s.refund_steps = in.refund_steps();
  s.endpoints.assign(in.endpoints().begin(), in.endpoints().end());
  s.takeover_any = in.takeover_any();
  s.min_nodes_timeout = Duration(in.min_nodes_timeout_ns());
  return s;
}

void Encode(const Assignment& a, wire::Assignment* out) {
  Encode(a.generation, out->mutable_generation());
  for (const Member& m : a.members) {
    wire::Member* member = out->add_members();
    member->set_node_id(Utf8(m.node_id));
    member->set_host(Utf8(m.host));
    member->set_address(Utf8(m.address));
    member->set_role(Utf8(m.role));
    member->set_node_rank(m.node_rank);
    member->set_first_rank(m.first_rank);
    member->set_workers(m.workers);
    member->set_presence_port(m.presence_port);
  }
  out->set_world_size(a.world_size);
  out->set_master_address(Utf8(a.master_address));
  out->set_master_port(a.master_port);
  out->set_restart_count(a.restart_count);
  out->set_refunded(a.refunded);
}

absl::StatusOr<Assignment> Decode(const wire::Assignment& in) {
  MT_RETURN_IF_ERROR(Range("members", in.members_size(), 1, kMaxNodes));
  MT_RETURN_IF_ERROR(Range("restart_count", in.restart_count(), 0, kMaxRestarts));
  MT_RETURN_IF_ERROR(Range("refunded", in.refunded(), 0, in.restart_count()));
  MT_RETURN_IF_ERROR(Range("master_port", in.master_port(), 0, 65535));
  Assignment a;
  MT_ASSIGN_OR_RETURN(a.generation, Decode(in.generation()));
  for (const wire::Member& m : in.members()) {
    MT_RETURN_IF_ERROR(Length("node_id", m.node_id(), 1, kMaxName));
    MT_RETURN_IF_ERROR(Length("host", m.host(), 0, kMaxName));
    MT_RETURN_IF_ERROR(Length("address", m.address(), 0, kMaxName));
    MT_RETURN_IF_ERROR(Length("role", m.role(), 0, kMaxName));
    MT_RETURN_IF_ERROR(Range("workers", m.workers(), 1, kMaxWorkersPerNode));
    MT_RETURN_IF_ERROR(Range("presence_port", m.presence_port(), 0, 65535));
    a.members.push_back({m.node_id(), m.host(), m.address(), m.role(), m.node_rank(), m.first_rank(),
                         m.workers(), m.presence_port()});
  }
  a.world_size = in.world_size();
  a.master_address = in.master_address();
  a.master_port = in.master_port();
  a.restart_count = in.restart_count();
  a.refunded = in.refunded();
  MT_RETURN_IF_ERROR(ValidateAssignment(a));
  return a;
}

void Encode(const WorkerFailure& f, wire::WorkerFailure* out) {
  out->set_host(Bounded(f.host));
  out->set_rank(f.rank);
  out->set_local_rank(f.local_rank);
  out->set_pid(f.pid);
  out->set_exit_code(f.exit_code);
  out->set_signal(f.signal);
  out->set_log_file(Bounded(f.log_file));
  out->set_message(Bounded(f.message));
  out->set_wall_time(Bounded(f.wall_time));
  out->set_early(f.early);
  out->set_failed_at_ns(f.failed_at_ns);
}

absl::StatusOr<WorkerFailure> Decode(const wire::WorkerFailure& in) {
  MT_RETURN_IF_ERROR(Range("exit_code", in.exit_code(), -255, 255));
  MT_RETURN_IF_ERROR(Range("signal", in.signal(), 0, 127));
  for (const auto* text : {&in.host(), &in.log_file(), &in.message(), &in.wall_time()}) {
    MT_RETURN_IF_ERROR(Length("text of a worker failure", *text, 0, kMaxText));
  }
  WorkerFailure f;
  f.host = in.host();
  f.rank = in.rank();
  f.local_rank = in.local_rank();
  f.pid = in.pid();
  f.exit_code = in.exit_code();
  f.signal = in.signal();
  f.log_file = in.log_file();
  f.message = in.message();
  f.wall_time = in.wall_time();
  f.early = in.early();
  f.failed_at_ns = in.failed_at_ns();
  return f;
}

}  // namespace mtrun::rendezvous::codec

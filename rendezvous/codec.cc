#include "rendezvous/codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rendezvous/codec_parts.h"
#include "rendezvous/overloaded.h"
#include "rendezvous/rendezvous.pb.h"

namespace mtrun::rendezvous {
namespace codec {
namespace {

// Beside the functions below, which would hide them.
using codec::Decode;
using codec::Encode;

void Encode(const Offer& o, const AgentSaid& said, wire::Offer* out) {
  out->set_node_id(Utf8(o.node_id));
  out->set_host(Utf8(o.host));
  out->set_address(Utf8(o.address));
  out->set_workers(o.workers);
  if (o.node_rank) out->set_node_rank(*o.node_rank);
  out->set_master_port(o.master_port);
  out->set_role(Utf8(o.role));
  out->set_presence_port(o.presence_port);
  if (o.holds) Encode(*o.holds, out->mutable_holds());
  if (said.held) Encode(*said.held, out->mutable_held());
  Encode(said.seen, out->mutable_seen());
}

absl::StatusOr<AgentSaid> Decode(const wire::Offer& in) {
  MT_RETURN_IF_ERROR(Length("node_id", in.node_id(), 1, kMaxName));
  MT_RETURN_IF_ERROR(Length("host", in.host(), 0, kMaxName));
  MT_RETURN_IF_ERROR(Length("address", in.address(), 0, kMaxName));
  MT_RETURN_IF_ERROR(Length("role", in.role(), 0, kMaxName));
  MT_RETURN_IF_ERROR(Range("workers", in.workers(), 0, kMaxWorkersPerNode));
  MT_RETURN_IF_ERROR(Range("master_port", in.master_port(), 0, 65535));
  MT_RETURN_IF_ERROR(Range("presence_port", in.presence_port(), 0, 65535));
  Offer o;
  o.node_id = in.node_id();
  o.host = in.host();
  o.address = in.address();
  o.workers = in.workers();
  o.master_port = in.master_port();
  o.role = in.role();
  o.presence_port = in.presence_port();
  if (in.has_node_rank()) {
    MT_RETURN_IF_ERROR(Range("node_rank", in.node_rank(), 0, kMaxNodes - 1));
    o.node_rank = in.node_rank();
  }
  AgentSaid said;
  MT_ASSIGN_OR_RETURN(said.seen, Decode(in.seen()));
  if (in.has_holds()) {
    MT_ASSIGN_OR_RETURN(o.holds, Decode(in.holds()));
    if (in.has_held()) {
      MT_ASSIGN_OR_RETURN(said.held, Decode(in.held()));
    }
  }
  said.event = OfferSent{std::move(o)};
  return said;
}

absl::StatusOr<AgentEvent> Decode(const wire::WorkerFailed& in) {
  WorkerFailed e;
  MT_ASSIGN_OR_RETURN(e.generation, Decode(in.generation()));
  MT_ASSIGN_OR_RETURN(e.failure, Decode(in.failure()));
  return e;
}

absl::StatusOr<AgentEvent> Decode(const wire::WorkersFinished& in) {
  WorkersFinished e;
  MT_ASSIGN_OR_RETURN(e.generation, Decode(in.generation()));
  e.final = in.final();
  return e;
}

absl::StatusOr<AgentEvent> Decode(const wire::Leaving& in) {
  MT_RETURN_IF_ERROR(Length("why", in.why(), 0, kMaxText));
  MT_RETURN_IF_ERROR(Range("exit_code", in.exit_code(), 0, 255));
  return Leaving{in.why(), in.fails_job(), in.exit_code()};
}

absl::StatusOr<AgentEvent> Decode(const wire::StoreSet& in) {
  StoreSet e;
  MT_ASSIGN_OR_RETURN(e.generation, Decode(in.generation()));
  e.key = in.key();
  e.value = in.value();
  return e;
}

absl::StatusOr<AgentEvent> Decode(const wire::StoreRead& in) {
  StoreRead e;
  MT_ASSIGN_OR_RETURN(e.generation, Decode(in.generation()));
  e.id = in.id();
  e.keys.assign(in.keys().begin(), in.keys().end());
  e.wait = in.wait();
  return e;
}

absl::StatusOr<AgentEvent> Decode(const wire::CollectivesBroken& in) {
  MT_RETURN_IF_ERROR(Range("rank", in.rank(), 0, kMaxNodes * kMaxWorkersPerNode));
  MT_RETURN_IF_ERROR(Length("why", in.why(), 0, kMaxText));
  CollectivesBroken e;
  MT_ASSIGN_OR_RETURN(e.generation, Decode(in.generation()));
  e.rank = in.rank();
  e.why = in.why();
  return e;
}

absl::StatusOr<AgentEvent> Decode(const wire::StepsCommitted& in) {
  MT_RETURN_IF_ERROR(Range("step", in.step(), 0, int64_t{1} << 53));
  StepsCommitted e;
  MT_ASSIGN_OR_RETURN(e.generation, Decode(in.generation()));
  e.step = in.step();
  return e;
}

absl::StatusOr<AgentSaid> Said(absl::StatusOr<AgentEvent> event) {
  if (!event.ok()) return event.status();
  return AgentSaid{*std::move(event), {}, {}};
}

void Encode(const JobOutcome& o, wire::JobOutcome* out) {
  out->set_success(o.success);
  out->set_exit_code(o.exit_code);
  out->set_reason(Bounded(o.reason));
  if (o.root_cause) Encode(*o.root_cause, out->mutable_root_cause());
}

absl::StatusOr<ServiceEvent> Decode(const wire::JobOutcome& in) {
  JobEnded e;
  e.outcome.success = in.success();
  e.outcome.exit_code = in.exit_code();
  e.outcome.reason = in.reason();
  if (in.has_root_cause()) {
    MT_ASSIGN_OR_RETURN(e.outcome.root_cause, Decode(in.root_cause()));
  }
  return e;
}

absl::StatusOr<ServiceEvent> Decode(const wire::Dissolved& in) {
  GenerationDissolved e;
  MT_ASSIGN_OR_RETURN(e.generation, Decode(in.generation()));
  e.reason = in.reason();
  e.restart_count = in.restart_count();
  e.refunded = in.refunded();
  e.gentle = in.gentle();
  return e;
}

void Encode(const StoreReply& r, wire::StoreReply* out) {
  Encode(r.generation, out->mutable_generation());
  out->set_id(r.id);
  for (const auto& [key, value] : r.values) {
    wire::StoreEntry* entry = out->add_values();
    entry->set_key(key);
    entry->set_value(value);
  }
  out->set_error(r.error);
}

absl::StatusOr<ServiceEvent> Decode(const wire::StoreReply& in) {
  StoreReply r;
  MT_ASSIGN_OR_RETURN(r.generation, Decode(in.generation()));
  r.id = in.id();
  for (const wire::StoreEntry& entry : in.values()) r.values[entry.key()] = entry.value();
  r.error = in.error();
  return r;
}

}  // namespace
}  // namespace codec

using namespace codec;  // NOLINT: the parts of this codec

absl::Status ValidateSettings(const JobSettings& s) {
  MT_RETURN_IF_ERROR(Length("job_id", s.job_id, 1, kMaxName));
  MT_RETURN_IF_ERROR(Range("max_nodes", s.max_nodes, 1, kMaxNodes));
  MT_RETURN_IF_ERROR(Range("min_nodes", s.min_nodes, 1, s.max_nodes));
  MT_RETURN_IF_ERROR(Range("max_restarts", s.max_restarts, 0, kMaxRestarts));
  MT_RETURN_IF_ERROR(Range("refund_steps", s.refund_steps, 0, kMaxRestarts));
  MT_RETURN_IF_ERROR(Range("heartbeats_missed", s.heartbeats_missed, 1, 1000000));
  MT_RETURN_IF_ERROR(
      Range("heartbeat_interval (ns)", s.heartbeat_interval.count(), 1000000, 3600ll * 1000000000));
  MT_RETURN_IF_ERROR(Range("last_call (ns)", s.last_call.count(), 0, kMaxNanoseconds));
  MT_RETURN_IF_ERROR(Range("reconnect_grace (ns)", s.reconnect_grace.count(), 0, kMaxNanoseconds));
  MT_RETURN_IF_ERROR(Range("endpoints", static_cast<int64_t>(s.endpoints.size()), 0, kMaxEndpoints));
  for (const std::string& endpoint : s.endpoints)
    MT_RETURN_IF_ERROR(Length("endpoint", endpoint, 1, kMaxName));
  MT_RETURN_IF_ERROR(Range("min_nodes_timeout (ns)", s.min_nodes_timeout.count(), 0, kMaxNanoseconds));
  return Range("join_timeout (ns)", s.join_timeout.count(), 0, kMaxNanoseconds);
}

wire::Hello EncodeHello(const HelloData& hello) {
  wire::Hello out;
  out.set_protocol(kProtocolVersion);
  out.set_node_id(Utf8(hello.node_id));
  out.set_session_id(hello.session_id);
  Encode(hello.opened.settings, out.mutable_settings());
  out.set_service_id(hello.service_id);
  Encode(hello.opened.seen, out.mutable_seen());
  out.set_seen_restarts(hello.opened.seen_restarts);
  out.set_seen_refunds(hello.opened.seen_refunds);
  return out;
}

absl::StatusOr<HelloData> DecodeHello(const wire::Hello& in) {
  if (in.protocol() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("this agent speaks protocol ", in.protocol(),
                                                      ", the service protocol ", kProtocolVersion,
                                                      "; run the same version of mtrun on every node"));
  }
  MT_RETURN_IF_ERROR(Length("node_id", in.node_id(), 1, kMaxName));
  HelloData hello;
  hello.node_id = in.node_id();
  hello.session_id = in.session_id();
  hello.service_id = in.service_id();
  hello.opened.settings = Decode(in.settings());
  MT_RETURN_IF_ERROR(ValidateSettings(hello.opened.settings));
  MT_ASSIGN_OR_RETURN(hello.opened.seen, Decode(in.seen()));
  MT_RETURN_IF_ERROR(Range("seen_restarts", in.seen_restarts(), 0, kMaxRestarts));
  hello.opened.seen_restarts = in.seen_restarts();
  MT_RETURN_IF_ERROR(Range("seen_refunds", in.seen_refunds(), 0, in.seen_restarts()));
  hello.opened.seen_refunds = in.seen_refunds();
  return hello;
}

wire::AgentEvent EncodeAgentEvent(uint64_t sequence, const AgentSaid& said) {
  wire::AgentEvent out;
  out.set_sequence(sequence);
  std::visit(Overloaded{
                 [&](const OfferSent& e) { Encode(e.offer, said, out.mutable_offer()); },
                 [&](const WorkerFailed& e) {
                   Encode(e.generation, out.mutable_failed()->mutable_generation());
                   Encode(e.failure, out.mutable_failed()->mutable_failure());
                 },
                 [&](const WorkersFinished& e) {
                   Encode(e.generation, out.mutable_finished()->mutable_generation());
                   out.mutable_finished()->set_final(e.final);
                 },
                 [&](const Leaving& e) {
                   out.mutable_leaving()->set_why(Bounded(e.why));
                   out.mutable_leaving()->set_fails_job(e.fails_job);
                   out.mutable_leaving()->set_exit_code(e.exit_code);
                 },
                 [&](const StoreSet& e) {
                   Encode(e.generation, out.mutable_store_set()->mutable_generation());
                   out.mutable_store_set()->set_key(e.key);
                   out.mutable_store_set()->set_value(e.value);
                 },
                 [&](const StoreRead& e) {
                   Encode(e.generation, out.mutable_store_read()->mutable_generation());
                   out.mutable_store_read()->set_id(e.id);
                   for (const std::string& key : e.keys) out.mutable_store_read()->add_keys(key);
                   out.mutable_store_read()->set_wait(e.wait);
                 },
                 [&](const CollectivesBroken& e) {
                   Encode(e.generation, out.mutable_broken()->mutable_generation());
                   out.mutable_broken()->set_rank(e.rank);
                   out.mutable_broken()->set_why(Bounded(e.why));
                 },
                 [&](const StepsCommitted& e) {
                   Encode(e.generation, out.mutable_steps()->mutable_generation());
                   out.mutable_steps()->set_step(e.step);
                 },
             },
             said.event);
  return out;
}

absl::StatusOr<AgentSaid> DecodeAgentEvent(const wire::AgentEvent& event) {
  switch (event.event_case()) {
    case wire::AgentEvent::kOffer:
      return Decode(event.offer());
    case wire::AgentEvent::kFailed:
      return Said(Decode(event.failed()));
    case wire::AgentEvent::kFinished:
      return Said(Decode(event.finished()));
    case wire::AgentEvent::kLeaving:
      return Said(Decode(event.leaving()));
    case wire::AgentEvent::kStoreSet:
      return Said(Decode(event.store_set()));
    case wire::AgentEvent::kStoreRead:
      return Said(Decode(event.store_read()));
    case wire::AgentEvent::kBroken:
      return Said(Decode(event.broken()));
    case wire::AgentEvent::kSteps:
      return Said(Decode(event.steps()));
    case wire::AgentEvent::EVENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("an agent's event of unknown kind");
}

wire::ServiceEvent EncodeServiceEvent(uint64_t sequence, const ServiceEvent& event) {
  wire::ServiceEvent out;
  out.set_sequence(sequence);
  std::visit(Overloaded{
                 [&](const Assigned& e) {
                   wire::Assignment assignment;
                   Encode(e.assignment(), &assignment);
                   out.set_assigned(assignment.SerializeAsString());
                 },
                 [&](const GenerationDissolved& e) {
                   Encode(e.generation, out.mutable_dissolved()->mutable_generation());
                   out.mutable_dissolved()->set_reason(Bounded(e.reason));
                   out.mutable_dissolved()->set_restart_count(e.restart_count);
                   out.mutable_dissolved()->set_refunded(e.refunded);
                   out.mutable_dissolved()->set_gentle(e.gentle);
                 },
                 [&](const JobEnded& e) { Encode(e.outcome, out.mutable_ended()); },
                 [&](const Refused& e) { out.set_refused(Bounded(e.reason)); },
                 [&](const Waiting& e) { out.set_waiting(Bounded(e.text)); },
                 [&](const StoreReply& e) { Encode(e, out.mutable_store_reply()); },
                 [&](const Elsewhere& e) {
                   out.mutable_elsewhere()->set_endpoint(Bounded(e.endpoint));
                   out.mutable_elsewhere()->set_reason(Bounded(e.reason));
                 },
                 [&](const BudgetChanged& e) {
                   out.mutable_budget()->set_restart_count(e.restart_count);
                   out.mutable_budget()->set_refunded(e.refunded);
                 },
             },
             event);
  return out;
}

absl::StatusOr<ServiceEvent> DecodeServiceEvent(const wire::ServiceEvent& event) {
  switch (event.event_case()) {
    case wire::ServiceEvent::kAssigned: {
      wire::Assignment message;
      if (!message.ParseFromString(event.assigned()))
        return absl::InvalidArgumentError("an assignment that cannot be read");
      MT_ASSIGN_OR_RETURN(Assignment assignment, Decode(message));
      return ServiceEvent(Assigned{std::move(assignment)});
    }
    case wire::ServiceEvent::kDissolved:
      return Decode(event.dissolved());
    case wire::ServiceEvent::kEnded:
      return Decode(event.ended());
    case wire::ServiceEvent::kRefused:
      return ServiceEvent(Refused{event.refused()});
    case wire::ServiceEvent::kWaiting:
      return ServiceEvent(Waiting{event.waiting()});
    case wire::ServiceEvent::kStoreReply:
      return Decode(event.store_reply());
    case wire::ServiceEvent::kElsewhere:
      return ServiceEvent(Elsewhere{event.elsewhere().endpoint(), event.elsewhere().reason()});
    case wire::ServiceEvent::kBudget:
      return ServiceEvent(BudgetChanged{event.budget().restart_count(), event.budget().refunded()});
    case wire::ServiceEvent::EVENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a service's event of unknown kind");
}

wire::Heartbeat EncodeHeartbeat(const Heartbeat& heartbeat) {
  wire::Heartbeat out;
  out.set_main_loop_age_ns(heartbeat.main_loop_age.count());
  if (!heartbeat.note.empty()) out.set_note(Bounded(heartbeat.note));
  return out;
}

Heartbeat DecodeHeartbeat(const wire::Heartbeat& in) {
  return {Duration(std::max<int64_t>(0, in.main_loop_age_ns())), Bounded(in.note())};
}

void EncodeJobView(const JobView& view, wire::JobStatus* status) {
  Encode(view.settings, status->mutable_settings());
  status->set_phase(view.phase);
  status->set_reason(Bounded(view.reason));
  Encode(view.generation, status->mutable_generation());
  status->set_restart_count(view.restart_count);
  status->set_authority(view.authority);
  status->set_phase_age_ns(view.phase_age.count());
  for (const NodeView& n : view.nodes) {
    wire::NodeStatus* node = status->add_nodes();
    node->set_node_id(Utf8(n.node_id));
    node->set_host(Utf8(n.host));
    node->set_address(Utf8(n.address));
    node->set_state(n.state);
    node->set_node_rank(n.node_rank);
    node->set_first_rank(n.first_rank);
    node->set_workers(n.workers);
    node->set_silent_ns(n.silent_for.count());
    node->set_main_loop_age_ns(n.main_loop_age.count());
    node->set_note(Bounded(n.note));
    node->set_note_age_ns(n.note_age.count());
  }
}

JobView DecodeJobView(const wire::JobStatus& in) {
  JobView view;
  view.settings = Decode(in.settings());
  view.phase = in.phase();
  view.reason = in.reason();
  view.generation = Generation{in.generation().number(), in.generation().id()};
  view.restart_count = in.restart_count();
  view.authority = in.authority();
  view.phase_age = Duration(in.phase_age_ns());
  for (const wire::NodeStatus& n : in.nodes()) {
    view.nodes.push_back({n.node_id(), n.host(), n.address(), n.state(), n.node_rank(), n.first_rank(),
                          n.workers(), Duration(n.silent_ns()), Duration(n.main_loop_age_ns()), n.note(),
                          Duration(n.note_age_ns())});
  }
  return view;
}

}  // namespace mtrun::rendezvous

#include <utility>

#include "rendezvous/wire/clamp.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/codec_fields.h"
#include "rendezvous/wire/overloaded.h"
#include "rendezvous/wire/packed_members.h"
#include "rendezvous/wire/rendezvous.pb.h"

namespace mtrun::rendezvous {

using codec::Bounded;
using codec::Encode;
using codec::Utf8;

wire::Hello EncodeHello(const HelloData& hello) {
  wire::Hello out;
  out.set_protocol(kProtocolVersion);
  Encode(hello, &out);
  if (out.has_last()) PackMembers(out.mutable_last());
  return out;
}

namespace {

std::string Bytes(const Assigned& assigned) {
  wire::Assignment assignment;
  Encode(assigned.assignment(), &assignment);
  PackMembers(&assignment);
  return assignment.SerializeAsString();
}

void EncodeOffer(const AgentSaid& said, wire::Offer* out) {
  const auto& sent = std::get<OfferSent>(said.event);
  Encode(sent.offer, out);
  if (said.held) {
    Encode(*said.held, out->mutable_held());
    PackMembers(out->mutable_held());
  }
  out->mutable_seen()->set_number(sent.seen.number);
  out->mutable_seen()->set_id(sent.seen.id);
}

}  // namespace

wire::AgentEvent EncodeAgentEvent(uint64_t sequence, const AgentSaid& said) {
  wire::AgentEvent out;
  out.set_sequence(sequence);
  std::visit(Overloaded{
                 [&](const OfferSent&) { EncodeOffer(said, out.mutable_offer()); },
                 [&](const WorkerFailed& e) { Encode(e, out.mutable_failed()); },
                 [&](const WorkersFinished& e) { Encode(e, out.mutable_finished()); },
                 [&](const Leaving& e) { Encode(e, out.mutable_leaving()); },
                 [&](const StoreSet& e) { Encode(e, out.mutable_store_set()); },
                 [&](const StoreRead& e) { Encode(e, out.mutable_store_read()); },
                 [&](const CollectivesBroken& e) { Encode(e, out.mutable_broken()); },
                 [&](const PeerUnreached& e) { Encode(e, out.mutable_unreached()); },
                 [&](const StepsCommitted& e) { Encode(e, out.mutable_steps()); },
                 [&](const LogPart& e) { Encode(e, out.mutable_log()); },
                 [&](NodeUse e) {  // measured by drivers, and told by workers
                   Clamp(&e);
                   Encode(e, out.mutable_use());
                 },
             },
             said.event);
  return out;
}

wire::ServiceEvent EncodeServiceEvent(uint64_t sequence, const ServiceEvent& event) {
  wire::ServiceEvent out;
  out.set_sequence(sequence);
  std::visit(Overloaded{
                 [&](const Assigned& e) { out.set_assigned(Bytes(e)); },
                 [&](const GenerationDissolved& e) { Encode(e, out.mutable_dissolved()); },
                 [&](const JobEnded& e) { Encode(e.outcome, out.mutable_ended()); },
                 [&](const Refused& e) { Encode(e, out.mutable_refused()); },
                 [&](const Waiting& e) { out.set_waiting(Bounded(e.text)); },
                 [&](const StoreReply& e) { Encode(e, out.mutable_store_reply()); },
                 [&](const Redirect& e) { Encode(e, out.mutable_elsewhere()); },
                 [&](const BudgetChanged& e) { Encode(e, out.mutable_budget()); },
                 [&](const Membership& e) { out.set_membership(Bytes(e.generation)); },
                 [&](const ControlCall& e) { Encode(e, out.mutable_control()); },
                 [&](const LogRequest& e) { Encode(e, out.mutable_log()); },
                 [&](const UseAsked& e) { Encode(e, out.mutable_use_asked()); },
             },
             event);
  return out;
}

wire::Heartbeat EncodeHeartbeat(const Heartbeat& heartbeat) {
  wire::Heartbeat out;
  Encode(heartbeat, &out);
  return out;
}

wire::Lease EncodeLease(const Lease& lease) {
  wire::Lease out;
  Encode(lease, &out);
  return out;
}

wire::StatusRequest EncodeAsking(const std::string& job_id, const PeerService& asks) {
  wire::StatusRequest out;
  if (asks.endpoint.empty()) return out;
  out.set_job_id(Utf8(job_id));
  out.set_endpoint(Utf8(asks.endpoint));
  out.mutable_generation()->set_number(asks.generation.number);
  out.mutable_generation()->set_id(asks.generation.id);
  out.set_authority(asks.authority);
  out.set_incarnation(asks.incarnation);
  return out;
}

wire::LogsRequest EncodeLogsRequest(const std::string& job_id, const LogRequest& request) {
  wire::LogsRequest out;
  out.set_job_id(job_id);
  Encode(request, out.mutable_read());
  return out;
}

void EncodeWatchedNode(const WatchedNode& node, wire::WatchedNode* out) { Encode(node, out); }

void EncodeHappening(const Happening& happening, wire::Happening* out) { Encode(happening, out); }

wire::LogPart EncodeLogPart(const LogPart& part) {
  wire::LogPart out;
  Encode(part, &out);
  return out;
}

wire::ControlRequest EncodeControl(const ControlQuestion& question) {
  wire::ControlRequest out;
  out.set_job_id(question.job_id);
  const auto fill = [&out](const auto& call) {
    if constexpr (requires { call.node; }) out.set_node(call.node);
    if constexpr (requires { call.checkpoint; }) out.set_checkpoint(call.checkpoint);
  };
  std::visit(fill, question.what);
  Encode(question.by, out.mutable_by());
  return out;
}

std::string EncodeMembership(const Assignment& generation) {
  wire::Assignment out;
  Encode(generation, &out);
  return out.SerializeAsString();
}

void EncodeJobView(const JobView& view, wire::JobStatus* status) { Encode(view, status); }

}  // namespace mtrun::rendezvous

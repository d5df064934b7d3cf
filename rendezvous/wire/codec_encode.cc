
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

namespace {

template <typename WireMessage, HasFields Message>
WireMessage Encoded(const Message& message) {
  WireMessage out;
  Encode(message, &out);
  return out;
}

std::string Bytes(const Assigned& assigned) {
  auto assignment = Encoded<wire::Assignment>(assigned.assignment());
  PackMembers(&assignment);
  return assignment.SerializeAsString();
}

}  // namespace

wire::Hello EncodeHello(const HelloData& hello) {
  auto out = Encoded<wire::Hello>(hello);
  out.set_protocol(kProtocolVersion);
  if (out.has_last()) PackMembers(out.mutable_last());
  return out;
}

wire::AgentEvent EncodeAgentEvent(uint64_t sequence, const AgentSaid& said) {
  wire::AgentEvent out;
  out.set_sequence(sequence);
  if (const auto* use = std::get_if<NodeUse>(&said.event)) {  // measured by drivers, and told by workers
    NodeUse clamped = *use;
    Clamp(&clamped);
    Encode(clamped, out.mutable_use());
    return out;
  }
  Encode(said, &out);
  if (said.held && out.has_offer()) {
    Encode(*said.held, out.mutable_offer()->mutable_held());
    PackMembers(out.mutable_offer()->mutable_held());
  }
  return out;
}

wire::ServiceEvent EncodeServiceEvent(uint64_t sequence, const ServiceEvent& event) {
  wire::ServiceEvent out;
  out.set_sequence(sequence);
  std::visit(
      Overloaded{
          [&](const Assigned& e) { out.set_assigned(Bytes(e)); },
          [&](const Waiting& e) { out.set_waiting(Bounded(e.text)); },
          [&](const Membership& e) { out.set_membership(Bytes(e.generation)); },
          [&](const auto&) { codec::Put(event, codec::ColumnOf(*out.GetDescriptor(), "event"), {}, &out); },
      },
      event);
  return out;
}

wire::Heartbeat EncodeHeartbeat(const Heartbeat& heartbeat) { return Encoded<wire::Heartbeat>(heartbeat); }

wire::Lease EncodeLease(const Lease& lease) { return Encoded<wire::Lease>(lease); }

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

wire::LogPart EncodeLogPart(const LogPart& part) { return Encoded<wire::LogPart>(part); }

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
  return Encoded<wire::Assignment>(generation).SerializeAsString();
}

void EncodeJobView(const JobView& view, wire::JobStatus* status) { Encode(view, status); }

}  // namespace mtrun::rendezvous

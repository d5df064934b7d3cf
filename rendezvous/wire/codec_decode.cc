#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/codec_fields.h"
#include "rendezvous/wire/packed_members.h"
#include "rendezvous/wire/rendezvous.pb.h"
#include "rendezvous/wire/validate.h"
#include "rendezvous/wire/validate_assignment.h"

namespace mtrun::rendezvous {
namespace {

/// Does not check the message.
template <HasFields Message>
Message Decoded(const codec::Wire& in) {
  Message message;
  codec::Decode(in, &message);
  return message;
}

/// Returns the message if it is valid for the state machine, else an error that names the field.
template <HasFields Message>
absl::StatusOr<Message> Checked(const codec::Wire& in) {
  Message message = Decoded<Message>(in);
  MT_RETURN_IF_ERROR(Validate(message));
  return message;
}

absl::StatusOr<Assignment> CheckedAssignment(wire::Assignment in) {
  MT_RETURN_IF_ERROR(UnpackMembers(&in));
  MT_ASSIGN_OR_RETURN(Assignment assignment, Checked<Assignment>(in));
  MT_RETURN_IF_ERROR(ValidateAssignment(assignment));
  return assignment;
}

/// True if `held` is the generation that runs here, and its members know no more of it than this service.
bool TellsNothing(const wire::Assignment& held, const Assignment& runs) {
  const bool settled = held.earlier().empty() && !runs.earlier.empty();
  return !settled && held.generation().number() == runs.generation.number &&
         held.generation().id() == runs.generation.id && held.incarnation() == runs.incarnation;
}

}  // namespace

absl::StatusOr<HelloData> DecodeHello(const wire::Hello& in) {
  if (in.protocol() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("this agent speaks protocol ", in.protocol(),
                                                      ", the service protocol ", kProtocolVersion,
                                                      "; run the same version of mtrun on every node"));
  }
  if (in.last().has_packed()) {
    wire::Hello plain = in;
    MT_RETURN_IF_ERROR(UnpackMembers(plain.mutable_last()));
    return DecodeHello(plain);
  }
  MT_ASSIGN_OR_RETURN(HelloData hello, Checked<HelloData>(in));
  if (hello.opened.last) MT_RETURN_IF_ERROR(ValidateAssignment(*hello.opened.last));
  return hello;
}

absl::StatusOr<AgentSaid> DecodeAgentEvent(const wire::AgentEvent& event, const Assignment* runs) {
  if (event.event_case() == wire::AgentEvent::EVENT_NOT_SET)
    return absl::InvalidArgumentError("an agent's event of unknown kind");
  MT_ASSIGN_OR_RETURN(AgentSaid said, Checked<AgentSaid>(event));
  const auto* sent = std::get_if<OfferSent>(&said.event);
  const wire::Offer& offer = event.offer();
  const bool holds = sent != nullptr && sent->offer.holds && offer.has_held();
  if (holds && !(runs != nullptr && TellsNothing(offer.held(), *runs))) {
    MT_ASSIGN_OR_RETURN(said.held, CheckedAssignment(offer.held()));
  }
  return said;
}

absl::StatusOr<ServiceEvent> DecodeServiceEvent(const wire::ServiceEvent& event) {
  if (event.has_assigned()) {
    MT_ASSIGN_OR_RETURN(Assignment assignment, DecodeMembership(event.assigned()));
    return ServiceEvent(Assigned(std::move(assignment)));
  }
  if (event.has_membership()) {
    MT_ASSIGN_OR_RETURN(Assignment assignment, DecodeMembership(event.membership()));
    return ServiceEvent(Membership{Assigned(std::move(assignment))});
  }
  if (event.has_waiting()) return ServiceEvent(Waiting{codec::Showable(event.waiting(), {0, kMaxText})});
  if (event.event_case() == wire::ServiceEvent::EVENT_NOT_SET)
    return absl::InvalidArgumentError("a service's event of unknown kind");
  ServiceEvent told = Waiting();
  codec::Take(event, codec::ColumnOf(*event.GetDescriptor(), "event"), {}, &told);
  MT_RETURN_IF_ERROR(validate::Check("event", told, Unbound{}));
  return told;
}

Heartbeat DecodeHeartbeat(const wire::Heartbeat& in) {
  Heartbeat heartbeat = Decoded<Heartbeat>(in);
  heartbeat.main_loop_age = std::max(heartbeat.main_loop_age, Duration::zero());
  heartbeat.note.resize(std::min(heartbeat.note.size(), kMaxText));  // escaped characters are longer
  heartbeat.sent = std::max(heartbeat.sent, Duration::zero());
  return heartbeat;
}

Lease DecodeLease(const wire::Lease& in) { return Decoded<Lease>(in); }

absl::StatusOr<Assignment> DecodeMembership(const std::string& bytes) {
  wire::Assignment message;
  if (!message.ParseFromString(bytes)) return absl::InvalidArgumentError("an assignment that cannot be read");
  return CheckedAssignment(std::move(message));
}

PeerService DecodeAsking(const wire::StatusRequest& in) {
  const bool bounded = in.endpoint().size() <= kMaxName && in.job_id().size() <= kMaxName &&
                       in.generation().number() <= kMaxGenerationNumber;
  if (in.job_id().empty() || !bounded || !ParseEndpoint(in.endpoint()).ok()) return {};
  return {.endpoint = in.endpoint(),
          .state = PeerService::State::kWithJob,
          .generation = {in.generation().number(), in.generation().id()},
          .authority = in.authority(),
          .incarnation = in.incarnation(),
          .last_number = in.generation().number()};
}

WatchedNode DecodeWatchedNode(const wire::WatchedNode& in) { return Decoded<WatchedNode>(in); }

Happening DecodeHappening(const wire::Happening& in) { return Decoded<Happening>(in); }

absl::StatusOr<LogRequest> DecodeLogsRequest(const wire::LogsRequest& in, const std::string& address) {
  MT_RETURN_IF_ERROR(validate::Check("job_id", in.job_id(), Size{0, kMaxName}));
  MT_ASSIGN_OR_RETURN(LogRequest request, Checked<LogRequest>(in.read()));
  request.by = Cleaned(request.by, address);
  return request;
}

absl::StatusOr<LogPart> DecodeLogPart(const wire::LogPart& in) { return Checked<LogPart>(in); }

absl::StatusOr<ControlQuestion> DecodeControl(const ControlKind& what, const wire::ControlRequest& in,
                                              const std::string& address) {
  MT_RETURN_IF_ERROR(validate::Check("job_id", in.job_id(), Size{0, kMaxName}));
  MT_RETURN_IF_ERROR(validate::Check("node", in.node(), Size{0, kMaxName}));
  const Requester by = Cleaned(Decoded<Requester>(in.by()), address);
  return ControlQuestion{Filled(what, in.node(), in.checkpoint()), in.job_id(), by};
}

JobView DecodeJobView(const wire::JobStatus& in) {
  JobView view = Decoded<JobView>(in);
  view.proof = std::clamp(view.proof, RunProof::kNone, RunProof::kFormed);
  return view;
}

}  // namespace mtrun::rendezvous

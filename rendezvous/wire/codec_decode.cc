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

/// Returns the message if it is valid for the state machine, else an error that names the field.
template <HasFields Message>
absl::StatusOr<Message> Checked(const codec::Wire& in) {
  Message message;
  codec::Decode(in, &message);
  MT_RETURN_IF_ERROR(Validate(message));
  return message;
}

absl::StatusOr<Assignment> CheckedAssignment(wire::Assignment in) {
  MT_RETURN_IF_ERROR(UnpackMembers(&in));
  MT_ASSIGN_OR_RETURN(Assignment assignment, Checked<Assignment>(in));
  MT_RETURN_IF_ERROR(ValidateAssignment(assignment));
  return assignment;
}

absl::StatusOr<Assigned> DecodeAssigned(const std::string& bytes) {
  wire::Assignment message;
  if (!message.ParseFromString(bytes)) return absl::InvalidArgumentError("an assignment that cannot be read");
  MT_ASSIGN_OR_RETURN(Assignment assignment, CheckedAssignment(std::move(message)));
  return Assigned(std::move(assignment));
}

/// True if `held` is the generation that runs here, and its members know no more of it than this service.
bool TellsNothing(const wire::Assignment& held, const Assignment& runs) {
  const bool settled = held.earlier().empty() && !runs.earlier.empty();
  return !settled && held.generation().number() == runs.generation.number &&
         held.generation().id() == runs.generation.id && held.incarnation() == runs.incarnation;
}

absl::StatusOr<AgentSaid> DecodeOffer(const wire::Offer& in, const Assignment* runs) {
  AgentSaid said;
  MT_ASSIGN_OR_RETURN(Offer offer, Checked<Offer>(in));
  const Generation seen = {in.seen().number(), in.seen().id()};
  MT_RETURN_IF_ERROR(validate::Check("seen", seen, Unbound{}));
  if (offer.holds && in.has_held() && !(runs != nullptr && TellsNothing(in.held(), *runs))) {
    MT_ASSIGN_OR_RETURN(said.held, CheckedAssignment(in.held()));
  }
  said.event = OfferSent{std::move(offer), seen};
  return said;
}

template <HasFields Message>
absl::StatusOr<AgentSaid> Said(const codec::Wire& in) {
  MT_ASSIGN_OR_RETURN(Message message, Checked<Message>(in));
  return AgentSaid{std::move(message), {}};
}

template <HasFields Message>
absl::StatusOr<ServiceEvent> Told(const codec::Wire& in) {
  MT_ASSIGN_OR_RETURN(Message message, Checked<Message>(in));
  return ServiceEvent(std::move(message));
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
  switch (event.event_case()) {
    case wire::AgentEvent::kOffer:
      return DecodeOffer(event.offer(), runs);
    case wire::AgentEvent::kFailed:
      return Said<WorkerFailed>(event.failed());
    case wire::AgentEvent::kFinished:
      return Said<WorkersFinished>(event.finished());
    case wire::AgentEvent::kLeaving:
      return Said<Leaving>(event.leaving());
    case wire::AgentEvent::kStoreSet:
      return Said<StoreSet>(event.store_set());
    case wire::AgentEvent::kStoreRead:
      return Said<StoreRead>(event.store_read());
    case wire::AgentEvent::kBroken:
      return Said<CollectivesBroken>(event.broken());
    case wire::AgentEvent::kUnreached:
      return Said<PeerUnreached>(event.unreached());
    case wire::AgentEvent::kSteps:
      return Said<StepsCommitted>(event.steps());
    case wire::AgentEvent::kLog:
      return Said<LogPart>(event.log());
    case wire::AgentEvent::kUse:
      return Said<NodeUse>(event.use());
    case wire::AgentEvent::EVENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("an agent's event of unknown kind");
}

absl::StatusOr<ServiceEvent> DecodeServiceEvent(const wire::ServiceEvent& event) {
  switch (event.event_case()) {
    case wire::ServiceEvent::kAssigned: {
      MT_ASSIGN_OR_RETURN(Assigned assigned, DecodeAssigned(event.assigned()));
      return ServiceEvent(std::move(assigned));
    }
    case wire::ServiceEvent::kMembership: {
      MT_ASSIGN_OR_RETURN(Assigned assigned, DecodeAssigned(event.membership()));
      return ServiceEvent(Membership{std::move(assigned)});
    }
    case wire::ServiceEvent::kDissolved:
      return Told<GenerationDissolved>(event.dissolved());
    case wire::ServiceEvent::kEnded: {
      MT_ASSIGN_OR_RETURN(JobOutcome outcome, Checked<JobOutcome>(event.ended()));
      return ServiceEvent(JobEnded{std::move(outcome)});
    }
    case wire::ServiceEvent::kRefused:
      return Told<Refused>(event.refused());
    case wire::ServiceEvent::kWaiting:
      return ServiceEvent(Waiting{codec::Showable(event.waiting(), {0, kMaxText})});
    case wire::ServiceEvent::kStoreReply:
      return Told<StoreReply>(event.store_reply());
    case wire::ServiceEvent::kElsewhere:
      return Told<Redirect>(event.elsewhere());
    case wire::ServiceEvent::kBudget:
      return Told<BudgetChanged>(event.budget());
    case wire::ServiceEvent::kControl:
      return Told<ControlCall>(event.control());
    case wire::ServiceEvent::kLog:
      return Told<LogRequest>(event.log());
    case wire::ServiceEvent::kUseAsked:
      return Told<UseAsked>(event.use_asked());
    case wire::ServiceEvent::EVENT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a service's event of unknown kind");
}

Heartbeat DecodeHeartbeat(const wire::Heartbeat& in) {
  Heartbeat heartbeat;
  codec::Decode(in, &heartbeat);
  heartbeat.main_loop_age = std::max(heartbeat.main_loop_age, Duration::zero());
  heartbeat.note.resize(std::min(heartbeat.note.size(), kMaxText));  // escaped characters are longer
  heartbeat.sent = std::max(heartbeat.sent, Duration::zero());
  return heartbeat;
}

Lease DecodeLease(const wire::Lease& in) {
  Lease lease;
  codec::Decode(in, &lease);
  return lease;
}

absl::StatusOr<Assignment> DecodeMembership(const std::string& bytes) {
  MT_ASSIGN_OR_RETURN(const Assigned assigned, DecodeAssigned(bytes));
  return assigned.assignment();
}

PeerService DecodeAsking(const wire::StatusRequest& in) {
  PeerService peer;
  const bool bounded = in.endpoint().size() <= kMaxName && in.job_id().size() <= kMaxName &&
                       in.generation().number() <= kMaxGenerationNumber;
  if (in.job_id().empty() || !bounded || !ParseEndpoint(in.endpoint()).ok()) return peer;
  peer.endpoint = in.endpoint();
  peer.state = PeerService::State::kWithJob;
  peer.generation = Generation{in.generation().number(), in.generation().id()};
  peer.authority = in.authority();
  peer.incarnation = in.incarnation();
  peer.last_number = peer.generation.number;
  return peer;
}

WatchedNode DecodeWatchedNode(const wire::WatchedNode& in) {
  WatchedNode node;
  codec::Decode(in, &node);
  return node;
}

Happening DecodeHappening(const wire::Happening& in) {
  Happening happening;
  codec::Decode(in, &happening);
  return happening;
}

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
  Requester by;
  codec::Decode(in.by(), &by);
  return ControlQuestion{Filled(what, in.node(), in.checkpoint()), in.job_id(), Cleaned(by, address)};
}

JobView DecodeJobView(const wire::JobStatus& in) {
  JobView view;
  codec::Decode(in, &view);
  view.proof = std::clamp(view.proof, RunProof::kNone, RunProof::kFormed);
  return view;
}

}  // namespace mtrun::rendezvous

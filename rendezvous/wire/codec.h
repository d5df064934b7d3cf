// Converts between the wire messages (rendezvous.proto) and rendezvous/wire/types.h, whose lists of fields define
// how. Decoding checks everything that comes from outside (missing parts, ranges, sizes), so that its results
// are valid for the state machine. Errors are kInvalidArgument and name the field. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "rendezvous/wire/control_call.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_view.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

namespace wire {
class AgentEvent;
class ControlRequest;
class Hello;
class Heartbeat;
class JobStatus;
class Lease;
class LogPart;
class LogsRequest;
class Happening;
class ServiceEvent;
class StatusRequest;
class WatchedNode;
}  // namespace wire

inline constexpr int kProtocolVersion = 3;
inline constexpr int kMaxMessageBytes = 16 << 20;

struct HelloData {
  std::string node_id;
  uint64_t session_id = 0;
  uint64_t service_id = 0;
  uint64_t attempt = 0;
  StreamOpened opened;
  bool operator==(const HelloData&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("node_id", self.node_id, Size{1, kMaxName});
    field("session_id", self.session_id);
    field("service_id", self.service_id);
    field("attempt", self.attempt);
    StreamOpened::Fields(self.opened, field);
  }
};

wire::Hello EncodeHello(const HelloData& hello);
/// Returns kFailedPrecondition for another protocol version; then nothing else is checked.
absl::StatusOr<HelloData> DecodeHello(const wire::Hello& hello);

wire::AgentEvent EncodeAgentEvent(uint64_t sequence, const AgentSaid& said);
/// `runs`: the generation that runs here, nullptr for none. An offer that holds it is returned without
/// `held`: it says nothing new, and after a restart of the service every member sends it.
absl::StatusOr<AgentSaid> DecodeAgentEvent(const wire::AgentEvent& event, const Assignment* runs = nullptr);

wire::ServiceEvent EncodeServiceEvent(uint64_t sequence, const ServiceEvent& event);
absl::StatusOr<ServiceEvent> DecodeServiceEvent(const wire::ServiceEvent& event);

/// Values out of bounds are cut.
wire::Heartbeat EncodeHeartbeat(const Heartbeat& heartbeat);
Heartbeat DecodeHeartbeat(const wire::Heartbeat& heartbeat);

wire::Lease EncodeLease(const Lease& lease);
Lease DecodeLease(const wire::Lease& lease);

/// A status request of the service `asks`; if its endpoint is empty or invalid, of a mere client.
wire::StatusRequest EncodeAsking(const std::string& job_id, const PeerService& asks);
PeerService DecodeAsking(const wire::StatusRequest& request);
/// A request from outside that came over `address`, and its result. kInvalidArgument: a text is too long.
wire::ControlRequest EncodeControl(const ControlQuestion& question);
absl::StatusOr<ControlQuestion> DecodeControl(const ControlKind& what, const wire::ControlRequest& request,
                                              const std::string& address);
/// A request for a worker's log that came over `address`, and the answer. kInvalidArgument: out of bounds.
wire::LogsRequest EncodeLogsRequest(const std::string& job_id, const LogRequest& request);
absl::StatusOr<LogRequest> DecodeLogsRequest(const wire::LogsRequest& request, const std::string& address);
wire::LogPart EncodeLogPart(const LogPart& part);
absl::StatusOr<LogPart> DecodeLogPart(const wire::LogPart& part);
/// Encodes a membership for a successor. The members are not packed, as it may be an older version.
std::string EncodeMembership(const Assignment& generation);
/// Returns kInvalidArgument for anything else.
absl::StatusOr<Assignment> DecodeMembership(const std::string& bytes);
void EncodeWatchedNode(const WatchedNode& node, wire::WatchedNode* out);
/// Decodes the message of a trusted service.
WatchedNode DecodeWatchedNode(const wire::WatchedNode& in);
void EncodeHappening(const Happening& happening, wire::Happening* out);
Happening DecodeHappening(const wire::Happening& in);
void EncodeJobView(const JobView& view, wire::JobStatus* status);
JobView DecodeJobView(const wire::JobStatus& status);

}  // namespace mtrun::rendezvous

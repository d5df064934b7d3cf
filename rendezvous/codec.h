// Between the wire (rendezvous.proto) and rendezvous/types.h, whose lists of fields say how. Decoding checks
// everything that comes from outside: missing parts, ranges, sizes; what it hands out is fit for the state
// machine. Errors are kInvalidArgument and name the field. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/control_choice.h"
#include "rendezvous/events.h"
#include "rendezvous/state_machine.h"
#include "rendezvous/types.h"

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

inline constexpr int kProtocolVersion = 2;
inline constexpr int kMaxMessageBytes = 16 << 20;

struct HelloData {
  std::string node_id;
  uint64_t session_id = 0;
  uint64_t service_id = 0;
  uint64_t attempt = 0;
  StreamOpened opened;
  bool operator==(const HelloData&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("node_id", self.node_id, Size{1, kMaxName});
    field("session_id", self.session_id);
    field("service_id", self.service_id);
    field("attempt", self.attempt);
    StreamOpened::Fields(self.opened, field);
  }
};

wire::Hello EncodeHello(const HelloData& hello);
/// kFailedPrecondition for another protocol version (then nothing else is looked at).
absl::StatusOr<HelloData> DecodeHello(const wire::Hello& hello);

wire::AgentEvent EncodeAgentEvent(uint64_t sequence, const AgentSaid& said);
/// `runs`: the generation that runs here, nullptr for none. An offer that holds it comes without `held`: of
/// what is known nothing is to be learned, and after a service has started again every member says it.
absl::StatusOr<AgentSaid> DecodeAgentEvent(const wire::AgentEvent& event, const Assignment* runs = nullptr);

wire::ServiceEvent EncodeServiceEvent(uint64_t sequence, const ServiceEvent& event);
absl::StatusOr<ServiceEvent> DecodeServiceEvent(const wire::ServiceEvent& event);

/// What is out of bounds is cut.
wire::Heartbeat EncodeHeartbeat(const Heartbeat& heartbeat);
Heartbeat DecodeHeartbeat(const wire::Heartbeat& heartbeat);

wire::Lease EncodeLease(const Lease& lease);
Lease DecodeLease(const wire::Lease& lease);

/// The service that asks another one for its status; without an endpoint where nobody else is meant.
wire::StatusRequest EncodeAsking(const std::string& job_id, const PeerService& asks);
PeerService DecodeAsking(const wire::StatusRequest& request);
/// A call from outside, and what came of it over `address`. kInvalidArgument: a text is too long.
wire::ControlRequest EncodeControl(const ControlQuestion& question);
absl::StatusOr<ControlQuestion> DecodeControl(const std::string& call, const wire::ControlRequest& request,
                                              const std::string& address);
/// A look at a worker's log, which came over `address`, and the answer. kInvalidArgument: out of bounds.
wire::LogsRequest EncodeLogsRequest(const std::string& job_id, const LogRequest& request);
absl::StatusOr<LogRequest> DecodeLogsRequest(const wire::LogsRequest& request, const std::string& address);
wire::LogPart EncodeLogPart(const LogPart& part);
absl::StatusOr<LogPart> DecodeLogPart(const wire::LogPart& part);
/// What a service writes down for its successor, which may be an older one: the members are not packed.
std::string EncodeMembership(const Assignment& generation);
/// kInvalidArgument for anything else.
absl::StatusOr<Assignment> DecodeMembership(const std::string& bytes);
void EncodeWatchedNode(const WatchedNode& node, wire::WatchedNode* out);
/// From a service that is trusted.
WatchedNode DecodeWatchedNode(const wire::WatchedNode& in);
void EncodeHappening(const Happening& happening, wire::Happening* out);
Happening DecodeHappening(const wire::Happening& in);
void EncodeJobView(const JobView& view, wire::JobStatus* status);
JobView DecodeJobView(const wire::JobStatus& status);

}  // namespace mtrun::rendezvous

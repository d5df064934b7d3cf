#include <google/protobuf/stubs/logging.h>

#include <string>

#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/rendezvous.pb.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

using namespace rendezvous;  // NOLINT: the code under test

void RoundTripHello(const std::string& bytes) {
  wire::Hello message;
  if (!message.ParseFromString(bytes)) return;
  const absl::StatusOr<HelloData> hello = DecodeHello(message);
  if (!hello.ok()) return;
  // Encoding cleans names, so the second time changes nothing.
  const absl::StatusOr<HelloData> again = DecodeHello(EncodeHello(*hello));
  MT_HOLDS(again.ok()) << again.status().message();
  const absl::StatusOr<HelloData> third = DecodeHello(EncodeHello(*again));
  MT_HOLDS(third.ok() && third->opened == again->opened && third->node_id == again->node_id);
}

void RoundTripAgentEvent(const std::string& bytes) {
  wire::AgentEvent message;
  if (!message.ParseFromString(bytes)) return;
  const absl::StatusOr<AgentSaid> said = DecodeAgentEvent(message);
  if (!said.ok()) return;
  const absl::StatusOr<AgentSaid> again = DecodeAgentEvent(EncodeAgentEvent(1, *said));
  MT_HOLDS(again.ok()) << Describe(said->event) << ": " << again.status().message();
  const absl::StatusOr<AgentSaid> third = DecodeAgentEvent(EncodeAgentEvent(1, *again));
  MT_HOLDS(third.ok() && *third == *again) << Describe(again->event);
}

void RoundTripServiceEvent(const std::string& bytes) {
  wire::ServiceEvent message;
  if (!message.ParseFromString(bytes)) return;
  const absl::StatusOr<ServiceEvent> event = DecodeServiceEvent(message);
  if (!event.ok()) return;
  const absl::StatusOr<ServiceEvent> again = DecodeServiceEvent(EncodeServiceEvent(1, *event));
  MT_HOLDS(again.ok()) << Describe(*event) << ": " << again.status().message();
  const absl::StatusOr<ServiceEvent> third = DecodeServiceEvent(EncodeServiceEvent(1, *again));
  MT_HOLDS(third.ok() && *third == *again) << Describe(*again);
}

void ReadStatus(const std::string& bytes) {
  wire::StatusReply message;
  if (!message.ParseFromString(bytes)) return;
  for (const wire::JobStatus& job : message.jobs()) DecodeJobView(job);
}

}  // namespace

void FuzzMessages(std::string_view bytes) {
  google::protobuf::SetLogHandler(nullptr);  // text that is not UTF-8 is expected here
  if (bytes.empty()) return;
  const std::string rest(bytes.substr(1));
  switch (bytes[0] % 4) {
    case 0:
      return RoundTripHello(rest);
    case 1:
      return RoundTripAgentEvent(rest);
    case 2:
      return RoundTripServiceEvent(rest);
    default:
      return ReadStatus(rest);
  }
}

}  // namespace mtrun::fuzz

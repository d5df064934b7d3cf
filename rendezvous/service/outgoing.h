// Messages of the service as bytes. An event is encoded once, and all agents that get the same one share its
// bytes down to the sockets: the size of a membership grows with the agents, and so does the number of its
// receivers. Pure; any thread.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <optional>

#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

namespace wire {
class ServiceMessage;
}  // namespace wire

/// An encoded wire::ServiceEvent without its number. A copy shares the bytes.
using EncodedEvent = grpc::Slice;

/// Encodes a whole message that contains no event.
grpc::ByteBuffer ToBytes(const wire::ServiceMessage& message);
/// Encodes a message with this event: the number and the acknowledgement precede the shared bytes.
grpc::ByteBuffer ToBytes(uint64_t acknowledged, uint64_t sequence, const EncodedEvent& event);

/// Encodes events; of equal ones in a row, which thousands of agents may get, only the first. A value.
class EventEncoder {
 public:
  EncodedEvent Encode(const ServiceEvent& event);

 private:
  std::optional<ServiceEvent> last_;  // an event that many may get
  EncodedEvent encoded_;              // last_ as bytes
};

}  // namespace mtrun::rendezvous

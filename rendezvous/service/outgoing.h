// What the service sends, as bytes. An event is encoded once, and all agents that are told the same share its
// bytes down to the sockets: a membership grows with the agents, and so does the number of those who get it.
// Pure; any thread.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstdint>
#include <optional>

#include "rendezvous/types.h"

namespace mtrun::rendezvous {

namespace wire {
class ServiceMessage;
}  // namespace wire

/// An encoded wire::ServiceEvent without its number. A copy shares the bytes.
using EncodedEvent = grpc::Slice;

/// The whole of a message that holds no event.
grpc::ByteBuffer ToBytes(const wire::ServiceMessage& message);
/// A message with this event: the number and the acknowledgement go ahead of the shared bytes.
grpc::ByteBuffer ToBytes(uint64_t acknowledged, uint64_t sequence, const EncodedEvent& event);

/// Encodes events; of the same one, which thousands may be told in a row, only the first. A value.
class EventEncoder {
 public:
  EncodedEvent Encode(const ServiceEvent& event);

 private:
  std::optional<ServiceEvent> last_;  // that many may hear
  EncodedEvent encoded_;              // of last_
};

}  // namespace mtrun::rendezvous

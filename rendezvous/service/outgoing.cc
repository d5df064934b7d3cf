#include "rendezvous/service/outgoing.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <array>

#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/rendezvous.pb.h"

namespace mtrun::rendezvous {
namespace {

using google::protobuf::io::CodedOutputStream;

constexpr uint32_t kVarint = 0, kBytes = 2;  // wire types

/// Writes a field's number and type, and its value or its length.
uint8_t* WriteField(int number, uint32_t type, uint64_t value, uint8_t* to) {
  to = CodedOutputStream::WriteTagToArray(static_cast<uint32_t>(number) << 3 | type, to);
  return CodedOutputStream::WriteVarint64ToArray(value, to);
}

EncodedEvent EncodeAnew(const ServiceEvent& event) {
  return EncodedEvent(EncodeServiceEvent(0, event).SerializeAsString());
}

}  // namespace

grpc::ByteBuffer ToBytes(const wire::ServiceMessage& message) {
  const grpc::Slice bytes(message.SerializeAsString());
  return grpc::ByteBuffer(&bytes, 1);
}

grpc::ByteBuffer ToBytes(uint64_t acknowledged, uint64_t sequence, const EncodedEvent& event) {
  std::array<uint8_t, 16> number;
  const auto number_size = static_cast<size_t>(
      WriteField(wire::ServiceEvent::kSequenceFieldNumber, kVarint, sequence, number.data()) - number.data());
  std::array<uint8_t, 64> head;
  uint8_t* end = WriteField(wire::ServiceMessage::kAckFieldNumber, kVarint, acknowledged, head.data());
  end = WriteField(wire::ServiceMessage::kEventFieldNumber, kBytes, number_size + event.size(), end);
  end = std::copy_n(number.data(), number_size, end);
  const std::array<grpc::Slice, 2> parts = {grpc::Slice(head.data(), static_cast<size_t>(end - head.data())),
                                            event};
  return grpc::ByteBuffer(parts.data(), parts.size());
}

EncodedEvent EventEncoder::Encode(const ServiceEvent& event) {
  // Events for one node alone, which may be large.
  const bool is_own = std::holds_alternative<StoreReply>(event) || std::holds_alternative<LogRequest>(event);
  if (is_own) return EncodeAnew(event);
  if (!last_ || *last_ != event) {
    last_ = event;
    encoded_ = EncodeAnew(event);
  }
  return encoded_;
}

}  // namespace mtrun::rendezvous

#include "rendezvous/service/outgoing.h"

#include <string>

#include "gtest/gtest.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/rendezvous.pb.h"

namespace mtrun::rendezvous {
namespace {

JobEnded FailedWith(const std::string& reason) { return JobEnded{FailedOutcome(reason)}; }

ServiceEvent Decoded(const EncodedEvent& encoded) {
  wire::ServiceEvent event;
  EXPECT_TRUE(event.ParseFromArray(encoded.begin(), static_cast<int>(encoded.size())));
  const auto decoded = DecodeServiceEvent(event);
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  return decoded.value_or(ServiceEvent(Refused{}));
}

TEST(EventEncoder, EqualEventsShareTheirBytes) {
  const std::string message(60000, 'x');
  EventEncoder encoder;
  const EncodedEvent first = encoder.Encode(FailedWith(message)),
                     second = encoder.Encode(FailedWith(message));
  EXPECT_TRUE(first.begin() == second.begin());
  EXPECT_EQ(Decoded(second), ServiceEvent(FailedWith(message)));
  const GenerationDissolved over{Generation{3, 1}, {"", "", WorkerStuck{0, message}}, 2, 1, false};
  const EncodedEvent third = encoder.Encode(over), fourth = encoder.Encode(over);
  EXPECT_TRUE(third.begin() == fourth.begin());
}

TEST(EventEncoder, DifferentEventsAreEncodedSeparately) {
  EventEncoder encoder;
  const std::string message(60000, 'x');
  encoder.Encode(FailedWith(message));
  EXPECT_EQ(Decoded(encoder.Encode(FailedWith("other"))), ServiceEvent(FailedWith("other")));
  const StoreReply reply{Generation{3, 1}, 8, {{"a", message}}, ""};
  EXPECT_EQ(Decoded(encoder.Encode(reply)), ServiceEvent(reply));
  EXPECT_EQ(Decoded(encoder.Encode(FailedWith("other"))), ServiceEvent(FailedWith("other")));
}

}  // namespace
}  // namespace mtrun::rendezvous

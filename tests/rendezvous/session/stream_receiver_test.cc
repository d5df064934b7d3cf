#include "rendezvous/session/stream_receiver.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using StreamArrival = StreamReceiver::Arrival;

TEST(StreamReceiver, DistinguishesNewRepeatedAndMissing) {
  StreamReceiver receiver;
  EXPECT_EQ(receiver.Take(1), StreamArrival::kNew);
  EXPECT_EQ(receiver.Take(2), StreamArrival::kNew);
  EXPECT_EQ(receiver.Take(1), StreamArrival::kRepeated);
  EXPECT_EQ(receiver.Take(2), StreamArrival::kRepeated);
  EXPECT_EQ(receiver.Take(4), StreamArrival::kGap);
  EXPECT_EQ(receiver.received(), 2u);
  EXPECT_EQ(receiver.Take(3), StreamArrival::kNew);
  EXPECT_EQ(receiver.Take(0), StreamArrival::kRepeated);
}

TEST(StreamReceiver, EveryMessageMakesAnAcknowledgementDue) {
  StreamReceiver receiver;
  EXPECT_FALSE(receiver.acknowledgement_due());
  receiver.Take(1);
  EXPECT_TRUE(receiver.acknowledgement_due());
  EXPECT_EQ(receiver.Acknowledge(), 1u);
  EXPECT_FALSE(receiver.acknowledgement_due());
  receiver.Take(1);  // repeated: the sender does not know
  EXPECT_TRUE(receiver.acknowledgement_due());
  receiver.Acknowledge();
  receiver.RequestAcknowledgement();
  EXPECT_TRUE(receiver.acknowledgement_due());
}

TEST(StreamReceiver, StartsOverAtOne) {
  StreamReceiver receiver;
  receiver.Take(1);
  receiver.Take(2);
  receiver.StartOver();
  EXPECT_EQ(receiver.received(), 0u);
  EXPECT_EQ(receiver.Take(1), StreamArrival::kNew);
}

TEST(StreamReceiver, IsAValueThatDescribesItself) {
  StreamReceiver receiver;
  receiver.Take(1);
  StreamReceiver copy = receiver;
  EXPECT_EQ(copy, receiver);
  EXPECT_EQ(receiver.Describe(), "1 received, acknowledgement due");
  copy.Acknowledge();
  EXPECT_FALSE(copy == receiver);
  EXPECT_EQ(copy.Describe(), "1 received");
}

}  // namespace
}  // namespace mtrun::rendezvous

#include "rendezvous/session/stream_receiver.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using Arrival = StreamReceiver::Arrival;

TEST(StreamReceiver, TellsNewFromRepeatedAndMissing) {
  StreamReceiver receiver;
  EXPECT_EQ(receiver.Take(1), Arrival::kNew);
  EXPECT_EQ(receiver.Take(2), Arrival::kNew);
  EXPECT_EQ(receiver.Take(1), Arrival::kRepeated);
  EXPECT_EQ(receiver.Take(2), Arrival::kRepeated);
  EXPECT_EQ(receiver.Take(4), Arrival::kGap);
  EXPECT_EQ(receiver.received(), 2u);
  EXPECT_EQ(receiver.Take(3), Arrival::kNew);
  EXPECT_EQ(receiver.Take(0), Arrival::kRepeated);
}

TEST(StreamReceiver, OwesAnAcknowledgementForWhateverCame) {
  StreamReceiver receiver;
  EXPECT_FALSE(receiver.acknowledgement_due());
  receiver.Take(1);
  EXPECT_TRUE(receiver.acknowledgement_due());
  EXPECT_EQ(receiver.Acknowledge(), 1u);
  EXPECT_FALSE(receiver.acknowledgement_due());
  receiver.Take(1);  // repeated: its sender does not know
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
  EXPECT_EQ(receiver.Take(1), Arrival::kNew);
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

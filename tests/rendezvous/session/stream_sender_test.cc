#include "rendezvous/session/stream_sender.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Sender = StreamSender<std::string>;

std::vector<std::string> Written(Sender& sender) {
  std::vector<std::string> lines;
  while (const auto next = sender.Next()) lines.push_back(absl::StrCat(next->sequence, " ", *next->message));
  return lines;
}

Sender With(const std::vector<std::string>& messages) {
  Sender sender;
  for (const std::string& message : messages) sender.Add(message);
  return sender;
}

TEST(StreamSender, NumbersFromOneAndWritesEachOnce) {
  Sender sender;
  EXPECT_EQ(sender.Add("a"), 1u);
  EXPECT_EQ(sender.Add("b"), 2u);
  EXPECT_THAT(Written(sender), ElementsAre("1 a", "2 b"));
  EXPECT_THAT(Written(sender), IsEmpty());
  EXPECT_EQ(sender.Add("c"), 3u);
  EXPECT_THAT(Written(sender), ElementsAre("3 c"));
}

TEST(StreamSender, KeepsUnacknowledgedMessages) {
  Sender sender = With({"a", "b", "c"});
  Written(sender);
  EXPECT_THAT(sender.Acknowledge(2), ElementsAre("a", "b"));
  EXPECT_THAT(sender.Acknowledge(2), IsEmpty());
  EXPECT_THAT(sender.Acknowledge(1), IsEmpty());
  EXPECT_THAT(sender.kept(), ElementsAre("c"));
  EXPECT_EQ(sender.acknowledged(), 2u);
  EXPECT_EQ(sender.Add("d"), 4u);
}

TEST(StreamSender, ContinuesAfterAcknowledgedMessages) {
  Sender sender = With({"a", "b", "c"});
  sender.Next();
  sender.Next();
  sender.Acknowledge(1);  // from the other end's Welcome
  sender.Resume();
  EXPECT_THAT(Written(sender), ElementsAre("2 b", "3 c"));
}

TEST(StreamSender, MessageOfAnEarlierStreamCanBeAcknowledgedBeforeItIsRepeated) {
  Sender sender = With({"a", "b", "c"});
  sender.Next();
  sender.Next();
  sender.Resume();
  EXPECT_THAT(sender.Acknowledge(2), ElementsAre("a", "b"));
  EXPECT_THAT(Written(sender), ElementsAre("3 c"));
}

TEST(StreamSender, UnwrittenMessageCannotBeAcknowledged) {
  Sender sender = With({"a", "b"});
  EXPECT_THAT(sender.Acknowledge(2), IsEmpty());
  sender.Next();
  EXPECT_THAT(sender.Acknowledge(~uint64_t{0}), ElementsAre("a"));
  EXPECT_THAT(Written(sender), ElementsAre("2 b"));
}

TEST(StreamSender, StartOverResendsFromNumberOne) {
  Sender sender = With({"a", "b", "c"});
  Written(sender);
  sender.Acknowledge(1);
  sender.StartOver();
  EXPECT_THAT(sender.Acknowledge(2), IsEmpty());  // an old number
  EXPECT_THAT(Written(sender), ElementsAre("1 b", "2 c"));
}

TEST(StreamSender, ResetReturnsUnacknowledgedMessages) {
  Sender sender = With({"a", "b"});
  Written(sender);
  sender.Acknowledge(1);
  EXPECT_THAT(sender.Reset(), ElementsAre("b"));
  EXPECT_EQ(sender, Sender());
  EXPECT_EQ(sender.Add("c"), 1u);
}

TEST(StreamSender, IsAValueThatDescribesItself) {
  Sender sender = With({"a", "b", "c"});
  sender.Next();
  sender.Next();
  sender.Acknowledge(1);
  const Sender copy = sender;
  EXPECT_EQ(copy, sender);
  EXPECT_EQ(sender.Describe(), "1 acknowledged, 2 kept, 1 of them written");
  sender.Resume();
  EXPECT_FALSE(copy == sender);
}

}  // namespace
}  // namespace mtrun::rendezvous

#include "launcher/channel/store_forwarder.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const rendezvous::Generation kGeneration = {2, 77};

TEST(StoreForwarderTest, AnswersReachTheRequester) {
  StoreForwarder forwarder;
  const auto first = forwarder.Ask(10, channel::StoreWait{5, {"a"}}, kGeneration);
  const auto second = forwarder.Ask(11, channel::StoreGet{5, {"b"}}, kGeneration);
  const auto& wait = std::get<rendezvous::StoreRead>(*first);
  const auto& get = std::get<rendezvous::StoreRead>(*second);
  EXPECT_TRUE(wait.wait);
  EXPECT_FALSE(get.wait);
  EXPECT_NE(wait.id, get.id);  // two workers can use the same id
  EXPECT_THAT(forwarder.Open(), SizeIs(2));

  const auto answer = forwarder.Answer({kGeneration, get.id, {{"b", "value"}}, ""});
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->first, 11);
  EXPECT_EQ(answer->second, (channel::StoreValues{5, {{"b", "value"}}, ""}));
  EXPECT_FALSE(forwarder.Answer({kGeneration, get.id, {}, ""}).has_value());  // only once
  EXPECT_EQ(forwarder.Answer({kGeneration, wait.id, {}, "dissolved"})->second.error, "dissolved");
  EXPECT_THAT(forwarder.Open(), IsEmpty());
}

TEST(StoreForwarderTest, SetsNeedNoAnswerAndOtherMessagesAreIgnored) {
  StoreForwarder forwarder;
  EXPECT_EQ(std::get<rendezvous::StoreSet>(*forwarder.Ask(1, channel::StoreSet{"k", "v"}, kGeneration)),
            (rendezvous::StoreSet{kGeneration, "k", "v"}));
  EXPECT_FALSE(forwarder.Ask(1, channel::Done{3}, kGeneration).has_value());
  EXPECT_THAT(forwarder.Open(), IsEmpty());
}

TEST(StoreForwarderTest, RequestsOfAnotherGenerationAreRefused) {
  const rendezvous::Generation other{kGeneration.number, kGeneration.id + 1}, none;
  const channel::StoreWait unnamed{5, {"a"}}, named{6, {"a"}, kGeneration};
  EXPECT_TRUE(StoreForwarder::IsRequest(unnamed));
  EXPECT_FALSE(StoreForwarder::IsRequest(channel::Done{3}));
  EXPECT_TRUE(StoreForwarder::Fits(unnamed, kGeneration));
  EXPECT_TRUE(StoreForwarder::Fits(named, kGeneration));
  EXPECT_FALSE(StoreForwarder::Fits(named, other));
  EXPECT_FALSE(StoreForwarder::Fits(named, none));
  EXPECT_FALSE(StoreForwarder::Fits(unnamed, none));
  EXPECT_EQ(StoreForwarder::Refuse(named)->id, 6);
  EXPECT_NE(StoreForwarder::Refuse(unnamed)->error, "");
  EXPECT_FALSE(StoreForwarder::Refuse(channel::StoreSet{"k", "v", kGeneration}).has_value());
}

TEST(StoreForwarderTest, RequestsOfAnOldGenerationAreDropped) {
  StoreForwarder forwarder;
  const auto question = forwarder.Ask(1, channel::StoreWait{5, {"a"}}, kGeneration);
  forwarder.Clear();
  EXPECT_FALSE(
      forwarder.Answer({kGeneration, std::get<rendezvous::StoreRead>(*question).id, {}, ""}).has_value());
}

}  // namespace
}  // namespace mtrun::launcher

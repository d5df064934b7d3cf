#include "rendezvous/job/effect_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Texts(EffectList& list) {
  std::vector<std::string> texts;
  for (const Effect& effect : list.Take()) texts.push_back(Describe(effect));
  return texts;
}

TEST(EffectList, KeepsTheOrderAndIsEmptyAfterTake) {
  EffectList list;
  list.Log("one");
  list.Refuse("node1", NotServed{"why"});
  list.LogDetail("two");
  EXPECT_THAT(Texts(list), ElementsAre("log: one", "log: refuses node1: why", "-> node1: refused: why",
                                       "close node1", "log: two"));
  EXPECT_EQ(list, EffectList());
}

TEST(EffectList, OnlyReadsOfAnEndedGenerationAreAnswered) {
  EffectList list;
  list.ReplyOver("node1", StoreSet{Generation{3, 33}, "key", "value"});
  EXPECT_THAT(Texts(list), IsEmpty());
  list.ReplyOver("node1", StoreRead{Generation{3, 33}, 7, {"key"}, true});
  const std::vector<Effect> effects = list.Take();
  ASSERT_EQ(effects.size(), 1u);
  const auto& reply = std::get<StoreReply>(std::get<Send>(effects[0]).event);
  EXPECT_EQ(reply.id, 7);
  EXPECT_EQ(reply.error, "generation 3 is over");
}

TEST(EffectList, RepliesCarryTheGeneration) {
  EffectList list;
  list.Reply(Generation{3, 33}, {{"node1", 7, {{"key", "value"}}, ""}});
  const std::vector<Effect> effects = list.Take();
  ASSERT_EQ(effects.size(), 1u);
  EXPECT_EQ(effects[0], Effect(Send{"node1", StoreReply{Generation{3, 33}, 7, {{"key", "value"}}, ""}}));
}

}  // namespace
}  // namespace mtrun::rendezvous

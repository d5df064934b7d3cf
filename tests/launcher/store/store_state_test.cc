#include "launcher/store/store_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using enum StoreCommand;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kStop(1, '\0'), kCancelled(1, '\1');

std::string Int(int64_t number) { return std::string(reinterpret_cast<const char*>(&number), sizeof number); }
std::string Text(const std::string& text) { return Int(static_cast<int64_t>(text.size())) + text; }

class StoreStateTest : public testing::Test {
 protected:
  /// Returns the answers to `client` and others.
  std::vector<StoreAnswer> Ask(int64_t client, const StoreRequest& request) {
    const auto answers = state_.Apply(client, request);
    EXPECT_TRUE(answers.ok()) << answers.status();
    state_.CheckInvariants();
    return answers.value_or(std::vector<StoreAnswer>());
  }
  /// Returns the only answer, which must be to client 1.
  std::string Answer(const StoreRequest& request) {
    const auto answers = Ask(1, request);
    return answers.size() == 1 && answers[0].client == 1 ? answers[0].bytes : "(no answer)";
  }
  std::string Refusal(const StoreRequest& request) {
    const StoreState before = state_;
    const auto answers = state_.Apply(1, request);
    EXPECT_EQ(state_, before);
    return std::string(answers.status().message());
  }

  StoreState state_{{.most_bytes = 2000, .most_answer_bytes = 200}};
};

TEST_F(StoreStateTest, KeysAreSetReadCountedListedAndDeleted) {
  EXPECT_THAT(Ask(1, {kSet, {"a"}, {"1"}}), IsEmpty());
  EXPECT_THAT(Ask(1, {kAppend, {"a"}, {"2"}}), IsEmpty());
  EXPECT_THAT(Ask(1, {kMultiSet, {"b", "c"}, {"x", ""}}), IsEmpty());
  EXPECT_EQ(Answer({kGet, {"a"}}), Text("12"));
  EXPECT_EQ(Answer({kGet, {"absent"}}), Text(""));
  EXPECT_EQ(Answer({kMultiGet, {"a", "b", "absent"}}), Text("12") + Text("x") + Text(""));
  EXPECT_EQ(Answer({kNumKeys}), Int(3));
  EXPECT_EQ(Answer({kDelete, {"b"}}), Int(1));
  EXPECT_EQ(Answer({kDelete, {"b"}}), Int(0));
  EXPECT_EQ(Answer({kDelete, {"c"}}), Int(1));
  EXPECT_EQ(Answer({kListKeys}), Int(1) + Text("a"));
  EXPECT_EQ(Answer({kPing, {}, {}, 0x01020304}), "\x04\x03\x02\x01");
}

TEST_F(StoreStateTest, AddCountsAndRefusesNonNumbers) {
  EXPECT_EQ(Answer({kAdd, {"n"}, {}, 5}), Int(5));
  EXPECT_EQ(Answer({kAdd, {"n"}, {}, -7}), Int(-2));
  EXPECT_EQ(Answer({kGet, {"n"}}), Text("-2"));
  Ask(1, {kSet, {"n"}, {"9223372036854775807"}});
  EXPECT_THAT(Refusal({kAdd, {"n"}, {}, 1}), HasSubstr("too large"));
  Ask(1, {kSet, {"n"}, {"seven"}});
  EXPECT_THAT(Refusal({kAdd, {"n"}, {}, 1}), HasSubstr("not a number"));
}

TEST_F(StoreStateTest, CompareSetAnswersLikePyTorch) {
  EXPECT_EQ(Answer({kCompareSet, {"c"}, {"old", "new"}}), Text("old"));  // not set, but returned
  EXPECT_EQ(Answer({kNumKeys}), Int(0));
  EXPECT_EQ(Answer({kCompareSet, {"c"}, {"", "1"}}), Text("1"));
  EXPECT_EQ(Answer({kCompareSet, {"c"}, {"0", "2"}}), Text("1"));
  EXPECT_EQ(Answer({kCompareSet, {"c"}, {"1", "2"}}), Text("2"));
}

/// A small request can ask for a large answer.
TEST_F(StoreStateTest, AnswerSizeIsBounded) {
  const std::string text(300, 'x');
  Ask(1, {kSet, {"big"}, {text}});
  Ask(1, {kQueuePush, {"queue"}, {text}});
  EXPECT_THAT(Refusal({kGet, {"big"}}), HasSubstr("more than 200 bytes"));
  EXPECT_THAT(Refusal({kQueuePop, {"queue"}}), HasSubstr("more than 200 bytes"));
  EXPECT_THAT(Refusal({kCompareSet, {"big"}, {"other", "1"}}), HasSubstr("more than 200 bytes"));
  EXPECT_THAT(Refusal({kCompareSet, {"big"}, {text, text}}), HasSubstr("more than 200 bytes"));
  EXPECT_THAT(Refusal({kCompareSet, {"absent"}, {text, "1"}}), HasSubstr("more than 200 bytes"));
  EXPECT_EQ(Answer({kQueueLength, {"queue"}}), Int(1));
}

TEST(StoreState, ValueSizeIsBounded) {
  StoreState state;
  ASSERT_TRUE(state.Apply(1, {kSet, {"k"}, {std::string(StoreParser::kMaxValueBytes - 1, 'v')}}).ok());
  ASSERT_TRUE(state.Apply(1, {kAppend, {"k"}, {"v"}}).ok());
  const auto answers = state.Apply(1, {kAppend, {"k"}, {"v"}});
  EXPECT_TRUE(absl::IsResourceExhausted(answers.status())) << answers.status();
  state.CheckInvariants();
}

TEST_F(StoreStateTest, WaitEndsWithTheLastOfItsKeys) {
  EXPECT_EQ(Answer({kCheck, {"a", "b"}}), "\1");
  EXPECT_THAT(Ask(1, {kWait, {"a", "b", "a"}}), IsEmpty());
  EXPECT_THAT(Ask(2, {kWait, {"b"}}), IsEmpty());
  EXPECT_THAT(Ask(3, {kSet, {"b"}, {""}}), ElementsAre(StoreAnswer{2, kStop}));
  EXPECT_THAT(Ask(3, {kAdd, {"a"}, {}, 1}), ElementsAre(StoreAnswer{3, Int(1)}, StoreAnswer{1, kStop}));
  EXPECT_EQ(Answer({kWait, {"a", "b"}}), kStop);
  EXPECT_EQ(Answer({kCheck, {"a", "b"}}), std::string(1, '\0'));
  EXPECT_EQ(state_.waiting(), 0u);
}

TEST_F(StoreStateTest, ClientThatCancelsOrDisconnectsIsNotWoken) {
  Ask(1, {kWait, {"a"}});
  Ask(2, {kWait, {"a"}});
  EXPECT_THAT(Refusal({kWait, {"b"}}), HasSubstr("wait again"));
  EXPECT_EQ(Answer({kCancelWait}), kCancelled);
  state_.Forget(2);
  state_.CheckInvariants();
  EXPECT_THAT(Ask(3, {kSet, {"a"}, {"1"}}), IsEmpty());
}

TEST_F(StoreStateTest, MemoryOfAWaitIsChargedToItsClient) {
  EXPECT_EQ(state_.bytes_waiting(1), 0u);
  Ask(1, {kWait, {std::string(100, 'a')}});
  EXPECT_GE(state_.bytes_waiting(1), 200u) << "a key is kept twice";
  Ask(2, {kWait, {"b", "b", "c"}});
  EXPECT_GT(state_.bytes_waiting(2), 0u);
  Ask(3, {kBarrier, {"b"}, {}, 2});
  EXPECT_GT(state_.bytes_waiting(3), 0u);
  EXPECT_EQ(state_.bytes(), 0u) << "it fills the store for nobody";
  Ask(4, {kMultiSet, {"b", "c"}, {"", ""}});
  state_.Forget(1);
  state_.Forget(3);
  state_.CheckInvariants();
  for (const int64_t client : {1, 2, 3}) EXPECT_EQ(state_.bytes_waiting(client), 0u) << client;
}

TEST_F(StoreStateTest, QueueEntryWakesOneWaiter) {
  EXPECT_EQ(Answer({kQueuePop, {"q"}}), Int(0));
  Ask(1, {kWait, {"q"}});
  Ask(2, {kWait, {"q"}});
  EXPECT_THAT(Ask(3, {kQueuePush, {"q"}, {"x"}}), ElementsAre(StoreAnswer{1, kStop}));
  EXPECT_THAT(Ask(3, {kQueuePush, {"q"}, {"y"}}), ElementsAre(StoreAnswer{2, kStop}));
  EXPECT_EQ(Answer({kQueueLength, {"q"}}), Int(2));
  EXPECT_EQ(Answer({kQueuePop, {"q"}}), Int(2) + Text("x"));
  EXPECT_EQ(Answer({kQueuePop, {"q"}}), Int(1) + Text("y"));
  EXPECT_EQ(Answer({kQueueLength, {"q"}}), Int(0));
  EXPECT_EQ(state_.bytes(), 0u);
}

TEST_F(StoreStateTest, BarrierOpensForItsLastMember) {
  EXPECT_THAT(Ask(1, {kBarrier, {"b"}, {}, 2}), IsEmpty());
  EXPECT_EQ(Answer({kCancelWait}), kCancelled);
  EXPECT_THAT(Ask(2, {kBarrier, {"b"}, {}, 2}), IsEmpty());
  EXPECT_THAT(Ask(1, {kBarrier, {"b"}, {}, 2}), ElementsAre(StoreAnswer{2, kStop}, StoreAnswer{1, kStop}));
  EXPECT_THAT(Ask(3, {kBarrier, {"b"}, {}, 2}), IsEmpty());  // the next round
}

TEST_F(StoreStateTest, RequestThatDoesNotFitIsRefusedAndChangesNothing) {
  for (int i = 0; i < 10; ++i) Ask(1, {kSet, {std::to_string(i)}, {std::string(100, 'v')}});
  EXPECT_THAT(Refusal({kSet, {"more"}, {std::string(400, 'v')}}), HasSubstr("full"));
  EXPECT_THAT(Refusal({kQueuePush, {"q"}, {std::string(400, 'v')}}), HasSubstr("full"));
  EXPECT_THAT(Refusal({kAppend, {"1"}, {std::string(400, 'v')}}), HasSubstr("full"));
  EXPECT_THAT(Refusal({kMultiSet, {"x", "y"}, {std::string(200, 'v'), std::string(200, 'v')}}),
              HasSubstr("full"));
  EXPECT_THAT(Refusal({kMultiGet, {"1", "2"}}), HasSubstr("one request asks"));
}

}  // namespace
}  // namespace mtrun::launcher

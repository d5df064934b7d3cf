#include "rendezvous/job/key_value_store.h"

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(KeyValueStore, AnswersAWaiterWhenItsLastKeyIsSet) {
  KeyValueStore store;
  EXPECT_THAT(store.Read("n", 1, {"a", "b"}, true), IsEmpty());
  EXPECT_THAT(store.Set("a", "1"), IsEmpty());
  const auto answers = store.Set("b", std::string("\0x", 2));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].values.at("b"), std::string("\0x", 2));
  EXPECT_EQ(answers[0].error, "");
  EXPECT_THAT(store.Set("b", "again"), IsEmpty());
}

TEST(KeyValueStore, GetNamesMissingKeys) {
  KeyValueStore store;
  store.Set("a", "1");
  const auto answers = store.Read("n", 1, {"a", "b"}, false);
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_THAT(answers[0].error, HasSubstr("\"b\""));
  EXPECT_EQ(answers[0].values.at("a"), "1");
}

TEST(KeyValueStore, RepeatedReadIsAnsweredOnce) {
  KeyValueStore store;
  store.Read("n", 1, {"a"}, true);
  store.Read("n", 1, {"a"}, true);
  store.Read("other", 1, {"a"}, true);
  EXPECT_THAT(store.Set("a", "1"), SizeIs(2));
}

TEST(KeyValueStore, CloseAnswersAllWaitersAndClears) {
  KeyValueStore store;
  store.Set("b", "1");
  store.Read("n", 1, {"a"}, true);
  store.Read("gone", 2, {"a"}, true);
  store.DropNode("gone");
  const auto answers = store.Close("over");
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].error, "over");
  EXPECT_EQ(store, KeyValueStore());
}

TEST(KeyValueStore, WaiterForARefusedValueGetsTheReason) {
  KeyValueStore store;
  store.Read("n", 1, {"big"}, true);
  const auto answers = store.Set("big", std::string(KeyValueStore::kMaxValueBytes + 1, 'x'));
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_THAT(answers[0].error, HasSubstr("at most 1048576"));
  EXPECT_THAT(store.Read("n", 2, {"big"}, true), SizeIs(1));  // later ones too
  EXPECT_THAT(store.Set("big", "small enough"), IsEmpty());
  EXPECT_EQ(store.Read("n", 3, {"big"}, true).at(0).error, "");
}

TEST(KeyValueStore, IsBoundedInBytesAndKeys) {
  KeyValueStore bytes;
  for (int i = 0; i < 9; ++i)
    bytes.Set(absl::StrCat("k", i), std::string(KeyValueStore::kMaxValueBytes, 'x'));
  EXPECT_THAT(bytes.Read("n", 1, {"k8"}, true).at(0).error, HasSubstr("full"));
  KeyValueStore keys;
  for (size_t i = 0; i < KeyValueStore::kMaxEntries + 1; ++i) keys.Set(absl::StrCat("k", i), "");
  EXPECT_EQ(keys.values().size(), KeyValueStore::kMaxEntries);
  EXPECT_THAT(keys.Read("n", 1, {absl::StrCat("k", KeyValueStore::kMaxEntries)}, true).at(0).error,
              HasSubstr("full"));
}

TEST(KeyValueStore, RefusesEmptyAndLongKeys) {
  KeyValueStore store;
  store.Set("", "v");
  store.Set(std::string(KeyValueStore::kMaxKeyBytes + 1, 'k'), "v");
  EXPECT_TRUE(store.values().empty());
  EXPECT_THAT(store.Read("n", 1, std::vector<std::string>(KeyValueStore::kMaxKeysPerRead + 1, "k"), true),
              SizeIs(1));
}

/// All workers of a large job wait for all others: checking every key of every waiter at each set takes
/// minutes.
TEST(KeyValueStore, ThousandWaitersForAThousandKeysAreAnsweredQuickly) {
  constexpr int kWorkers = static_cast<int>(KeyValueStore::kMaxKeysPerRead);
  std::vector<std::string> keys;
  for (int worker = 0; worker < kWorkers; ++worker) keys.push_back(absl::StrCat("rank/", worker));
  KeyValueStore store;
  const TimePoint began = MonotonicNow();
  for (int worker = 0; worker < kWorkers; ++worker)
    EXPECT_THAT(store.Read("n", worker, keys, true), IsEmpty());
  for (int worker = kWorkers - 1; worker > 0; --worker)
    EXPECT_THAT(store.Set(keys[static_cast<size_t>(worker)], "1"), IsEmpty());
  EXPECT_LT(MonotonicNow() - began, std::chrono::seconds(20));
  const auto answers = store.Set(keys[0], "1");
  ASSERT_THAT(answers, SizeIs(kWorkers));
  for (const auto& answer : answers) EXPECT_THAT(answer.values, SizeIs(kWorkers));
}

}  // namespace
}  // namespace mtrun::rendezvous

#include "page/sessions.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtrun::page {
namespace {

constexpr TimePoint kStart{};

TEST(SessionsTest, SessionEndsByTimeAndByItsUser) {
  Sessions sessions;
  sessions.Begin("cookie", "csrf", Role::kOperator, kStart);
  const auto found = sessions.Find("cookie", kStart + Sessions::kLength - Duration(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->role, Role::kOperator);
  EXPECT_EQ(found->csrf, "csrf");
  EXPECT_FALSE(sessions.Find("cookie", kStart + Sessions::kLength));
  EXPECT_FALSE(sessions.Find("", kStart));
  EXPECT_FALSE(sessions.Find("other", kStart));
  sessions.End("cookie");
  EXPECT_FALSE(sessions.Find("cookie", kStart));
}

TEST(SessionsTest, OldestSessionIsEvicted) {
  Sessions sessions;
  for (size_t i = 0; i <= Sessions::kMost; ++i)
    sessions.Begin(absl::StrCat("c", i), "", Role::kViewer, kStart + Duration(i));
  EXPECT_FALSE(sessions.Find("c0", kStart));
  EXPECT_TRUE(sessions.Find("c1", kStart));
  EXPECT_TRUE(sessions.Find(absl::StrCat("c", Sessions::kMost), kStart));
}

TEST(AttemptsTest, AttemptsOfAnAddressAreLimitedAndRecover) {
  Attempts attempts;
  for (int i = 0; i < Attempts::kEach; ++i) EXPECT_TRUE(attempts.Take("a", kStart));
  EXPECT_FALSE(attempts.Take("a", kStart));
  EXPECT_TRUE(attempts.Take("b", kStart));
  EXPECT_FALSE(attempts.Take("a", kStart + Attempts::kBackEach / 2));
  EXPECT_TRUE(attempts.Take("a", kStart + Attempts::kBackEach * 2));
}

TEST(AttemptsTest, AttemptsOfManyAddressesAreLimitedTogether) {
  Attempts attempts;
  int taken = 0;
  for (int i = 0; i < 1000; ++i) taken += attempts.Take(absl::StrCat(i), kStart) ? 1 : 0;
  EXPECT_EQ(taken, Attempts::kAll);
  EXPECT_TRUE(attempts.Take("later", kStart + 2 * Attempts::kBackAll));
}

TEST(AttemptsTest, AddressesBeyondTheBoundCountAsOne) {
  Attempts attempts;
  TimePoint now = kStart;
  for (size_t i = 0; i < Attempts::kMaxPeers; ++i) {
    attempts.Take(absl::StrCat("p", i), now);
    now += Duration(1);
  }
  now += Attempts::kAll * Attempts::kBackAll;
  int taken = 0;
  for (int i = 0; i < 100; ++i) taken += attempts.Take(absl::StrCat("q", i), now) ? 1 : 0;
  EXPECT_EQ(taken, Attempts::kEach);
}

}  // namespace
}  // namespace mtrun::page

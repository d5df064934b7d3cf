#include "page/sessions.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mtrun::page {
namespace {

constexpr TimePoint kStart{};

TEST(SessionsTest, SessionEndsByTimeAndByItsUser) {
  Sessions sessions;
  sessions.Begin("token", Role::kOperator, kStart);
  const auto found = sessions.Find("token", kStart + Sessions::kLength - Duration(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->role(), Role::kOperator);
  EXPECT_TRUE(found->HasEnded(kStart + Sessions::kLength));
  EXPECT_FALSE(sessions.Find("token", kStart + Sessions::kLength));
  EXPECT_FALSE(sessions.Find("", kStart));
  EXPECT_FALSE(sessions.Find("other", kStart));
  EXPECT_FALSE(found->HasEnded(kStart));
  sessions.End("token");
  EXPECT_FALSE(sessions.Find("token", kStart));
  EXPECT_TRUE(found->HasEnded(kStart)) << "its streams end with it";
}

TEST(SessionsTest, OldestViewerIsEvictedBeforeAnyOperator) {
  Sessions sessions;
  sessions.Begin("operator", Role::kOperator, kStart);
  sessions.Begin("v0", Role::kViewer, kStart + Duration(1));
  const auto oldest = sessions.Find("v0", kStart);
  for (size_t i = 1; i < Sessions::kMost; ++i)
    sessions.Begin(absl::StrCat("v", i), Role::kViewer, kStart + Duration(1 + i));
  EXPECT_FALSE(sessions.Find("v0", kStart));
  EXPECT_TRUE(oldest->HasEnded(kStart));
  for (const std::string& token :
       {std::string("operator"), std::string("v1"), absl::StrCat("v", Sessions::kMost - 1)})
    EXPECT_TRUE(sessions.Find(token, kStart)) << token;
}

TEST(SessionsTest, OldestOperatorIsEvictedIfThereIsNoViewer) {
  Sessions sessions;
  for (size_t i = 0; i <= Sessions::kMost; ++i)
    sessions.Begin(absl::StrCat("o", i), Role::kOperator, kStart + Duration(i));
  EXPECT_FALSE(sessions.Find("o0", kStart));
  EXPECT_TRUE(sessions.Find("o1", kStart));
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

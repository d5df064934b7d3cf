#include "web/live_body.h"

#include "gtest/gtest.h"

namespace mtrun::web {
namespace {

TEST(LiveBodyTest, NewestTextIsTakenOnce) {
  LiveBody body;
  int woken = 0;
  body.Set("before");
  body.Attach([&] { ++woken; });
  EXPECT_EQ(body.Take().text, "before");
  EXPECT_EQ(body.Take().text, std::nullopt);
  body.Set("old");
  body.Set("new");
  EXPECT_EQ(woken, 2);
  EXPECT_EQ(body.Take().text, "new");
}

TEST(LiveBodyTest, EndFollowsTheLastText) {
  LiveBody body;
  body.Set("last");
  body.End();
  body.Set("too late");
  LiveBody::Next next = body.Take();
  EXPECT_EQ(next.text, "last");
  EXPECT_FALSE(next.ended);
  EXPECT_TRUE(body.Take().ended);
}

TEST(LiveBodyTest, DetachedBodyWakesNoWriter) {
  LiveBody body;
  int woken = 0;
  body.Attach([&] { ++woken; });
  EXPECT_FALSE(body.gone());
  body.Detach();
  body.Set("for nobody");
  EXPECT_TRUE(body.gone());
  EXPECT_EQ(woken, 0);
  EXPECT_EQ(body.Take().text, std::nullopt);
}

}  // namespace
}  // namespace mtrun::web

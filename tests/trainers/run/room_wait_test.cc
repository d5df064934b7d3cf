#include "trainers/run/room_wait.h"

#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

TEST(RoomWait, TriesAgainUntilSomethingIsMoreUrgent) {
  int alive = 0;
  bool urgent = false;
  RoomWait wait([&] { return urgent; }, [&] { ++alive; });
  EXPECT_TRUE(wait(absl::ResourceExhaustedError("full")));
  EXPECT_TRUE(wait(absl::ResourceExhaustedError("full")));
  EXPECT_EQ(alive, 2);
  urgent = true;
  EXPECT_FALSE(wait(absl::ResourceExhaustedError("full")));
  EXPECT_EQ(alive, 2);
}

}  // namespace
}  // namespace mtrun::trainers

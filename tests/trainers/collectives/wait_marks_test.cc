#include "trainers/collectives/wait_marks.h"

#include <gtest/gtest.h>

namespace mtrun::collectives {
namespace {

/// A device that has passed the marks up to a position; marks are positions.
class Marked {
 public:
  uint64_t At(int place) {
    return marks.Current([place](int mark) { return mark <= place; });
  }
  WaitMarks<int> marks;
};

TEST(WaitMarksTest, DeviceWaitsBetweenTheMarksOfAWait) {
  Marked device;
  EXPECT_EQ(device.At(0), 0u) << "nothing is marked";
  device.marks.Begin(10);
  device.marks.End(20);
  EXPECT_EQ(device.At(9), 0u) << "it has work of its own";
  EXPECT_EQ(device.At(10), 1u);
  EXPECT_EQ(device.At(19), 1u);
  EXPECT_EQ(device.At(20), 0u);
  EXPECT_TRUE(device.marks.empty());
}

/// The thread itself is in the wait, as for CPU tensors.
TEST(WaitMarksTest, UnfinishedWaitCounts) {
  Marked device;
  device.marks.Begin(10);
  EXPECT_EQ(device.At(9), 0u);
  EXPECT_EQ(device.At(1000), 1u);
  device.marks.End(1001);
  EXPECT_EQ(device.At(1000), 1u);
  EXPECT_EQ(device.At(1001), 0u);
}

/// The marks of a pass with synchronised batch normalisation: the device reaches one wait after another, and
/// between two of them it works or hangs.
TEST(WaitMarksTest, DeviceIsInOneOfManyWaits) {
  Marked device;
  for (const int place : {10, 30, 50}) {
    device.marks.Begin(place);
    device.marks.End(place + 10);
  }
  EXPECT_EQ(device.At(5), 0u);
  EXPECT_EQ(device.At(15), 1u);
  EXPECT_EQ(device.At(25), 0u) << "own work between two waits, all of it marked before";
  EXPECT_EQ(device.At(35), 2u);
  EXPECT_EQ(device.At(55), 3u);
  EXPECT_EQ(device.At(60), 0u);
  device.marks.Begin(70);
  EXPECT_EQ(device.At(80), 4u) << "numbers go on";
}

}  // namespace
}  // namespace mtrun::collectives

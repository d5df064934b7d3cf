// The real loop with threads as workers, each with a device of memory beside the CPU group: what an aborted
// device leaves is never applied, and what goes wrong on one ends the generation for all.
#include <atomic>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/trainers/run/train_loop_fixture.h"

namespace mtrun::trainers {
namespace {

using testing::MemberResult;
using testing::ThreadMembership;
using testing::TrainLoopTest;

class DeviceLoopTest : public TrainLoopTest {
 protected:
  /// `world` members with devices come to what one worker without a device comes to, in so many generations.
  void ExpectUndisturbed(int world, const std::map<int, ThreadMembership::Hook>& hooks,
                         uint64_t generations) {
    const at::Tensor reference = TrainAlone();
    devices_ = true;
    for (const MemberResult& result : TrainAll(world, "devices", hooks)) {
      ExpectComplete(result);
      ExpectSameRun("devices", result.weight, reference);
    }
    EXPECT_EQ(generations_, generations);
    const auto [status, text] = Verify("devices");
    EXPECT_EQ(status, 0) << text;
  }

  /// What `act` does to its member once, after so many steps.
  static ThreadMembership::Hook Once(int64_t after, std::function<void(ThreadMembership&)> act) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    return [after, act = std::move(act), done](ThreadMembership& self, int64_t steps) {
      if (steps >= after && !done->exchange(true)) act(self);
    };
  }
};

TEST_F(DeviceLoopTest, TheResultIsTheSameWithDevices) { ExpectUndisturbed(3, {}, 1); }

TEST_F(DeviceLoopTest, AGroupThatBreaksTakesItsDevicesWithIt) {
  ExpectUndisturbed(3, {{1, Once(5, [](ThreadMembership& self) { self.BreakGroup(); })}}, 2);
}

/// Nobody waits for it and nobody has died: the device says so by itself, and the next generation's works.
TEST_F(DeviceLoopTest, ADevicesErrorEndsTheGenerationForAll) {
  ExpectUndisturbed(2, {{1, Once(4, [](ThreadMembership& self) { self.BreakDevice(); })}}, 2);
}

/// One whose sums are late is waited for; its group breaks meanwhile, when others may have ended theirs.
TEST_F(DeviceLoopTest, AMemberThatIsLateAndAbortsLeavesNoGarbage) {
  const auto late = Once(3, [](ThreadMembership& self) {
    self.DelayDevice(std::chrono::milliseconds(30));
    self.BreakGroup();
  });
  ExpectUndisturbed(3, {{2, late}}, 2);
}

}  // namespace
}  // namespace mtrun::trainers

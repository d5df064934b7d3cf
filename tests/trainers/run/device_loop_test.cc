// Runs the real loop with threads as workers, each with a simulated device and the CPU group. The leftovers
// of an aborted device are never applied, and an error on one device ends the generation for all.
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
  /// Expects the result of one worker without a device from `world` members with devices.
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

  /// Returns a hook that calls `act` on its member once, after `after` steps.
  static ThreadMembership::Hook Once(int64_t after, std::function<void(ThreadMembership&)> act) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    return [after, act = std::move(act), done](ThreadMembership& self, int64_t steps) {
      if (steps >= after && !done->exchange(true)) act(self);
    };
  }
};

TEST_F(DeviceLoopTest, ResultIsTheSameWithDevices) { ExpectUndisturbed(3, {}, 1); }

TEST_F(DeviceLoopTest, BrokenGroupAbortsItsDevices) {
  ExpectUndisturbed(3, {{1, Once(5, [](ThreadMembership& self) { self.BreakGroup(); })}}, 2);
}

/// No member waits for the device: it reports its own error, and the next generation's device works.
TEST_F(DeviceLoopTest, DeviceErrorEndsTheGenerationForAll) {
  ExpectUndisturbed(2, {{1, Once(4, [](ThreadMembership& self) { self.BreakDevice(); })}}, 2);
}

/// A member's sums are late and its group breaks, at a time when others may have finished theirs.
TEST_F(DeviceLoopTest, LateMemberThatAbortsLeavesNoGarbage) {
  const auto late = Once(3, [](ThreadMembership& self) {
    self.DelayDevice(std::chrono::milliseconds(30));
    self.BreakGroup();
  });
  ExpectUndisturbed(3, {{2, late}}, 2);
}

}  // namespace
}  // namespace mtrun::trainers

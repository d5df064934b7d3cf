#include "trainers/step/fault_plan.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FaultPlanTest, ParsesEveryPlaceAndAction) {
  const auto faults = ParseFaults("rank=1 step=20 at=backward do=kill; rank=0 step=31 at=save do=stop");
  ASSERT_TRUE(faults.ok()) << faults.status();
  EXPECT_THAT(
      *faults,
      ElementsAre(Fault{.rank = 1, .step = 20, .at = Fault::At::kBackward, .action = Fault::Action::kKill},
                  Fault{.rank = 0, .step = 31, .at = Fault::At::kSave, .action = Fault::Action::kStop}));
  EXPECT_TRUE(ParseFaults("")->empty());
  for (const char* at : {"forward", "backward", "allreduce", "read", "apply", "save", "eval"}) {
    EXPECT_TRUE(ParseFaults(std::string("rank=0 step=1 do=exit at=") + at).ok()) << at;
  }
}

TEST(FaultPlanTest, MalformedPartsAreNamed) {
  EXPECT_TRUE(ParseFaults("rank=0 step=0 at=setup do=throw").ok());
  for (const char* text : {"rank=x", "step=", "at=nowhere", "do=dance", "colour=red", "rank"}) {
    const auto faults = ParseFaults(text);
    EXPECT_THAT(std::string(faults.status().message()), HasSubstr(text));
  }
}

TEST(FaultPlanTest, FiresOnceOnlyAtItsPlace) {
  static int signals = 0;
  signals = 0;
  std::signal(SIGTERM, [](int) { ++signals; });
  const auto faults = *ParseFaults("rank=1 step=20 at=apply do=leave");
  FaultPlan plan(faults, 1), others(faults, 0);
  ::testing::internal::CaptureStderr();
  others.Reach(Fault::At::kApply, 20);
  plan.Reach(Fault::At::kApply, 19);
  plan.Reach(Fault::At::kForward, 20);
  EXPECT_EQ(signals, 0);
  plan.Reach(Fault::At::kApply, 20);
  EXPECT_EQ(signals, 1);
  plan.Reach(Fault::At::kApply, 20);
  EXPECT_EQ(signals, 1);
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("fault fired: rank=1 step=20 at=apply do=leave pid="));
}

}  // namespace
}  // namespace mtrun::trainers

#include "launcher/core/effect_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TEST(EffectListTest, KeepsTheOrderAndIsEmptyAfterTake) {
  EffectList out;
  out.Log(log::Level::kInfo, "first");
  out.Tell({0, 2}, channel::Stop{"why"});
  out.Send(rendezvous::Leaving{"why"});
  EXPECT_THAT(out.Take(), testing::ElementsAre(Effect(WriteLog{log::Level::kInfo, "first"}),
                                               Effect(SendToWorker{0, channel::Stop{"why"}}),
                                               Effect(SendToWorker{2, channel::Stop{"why"}}),
                                               Effect(SendToService{rendezvous::Leaving{"why"}})));
  EXPECT_THAT(out.Take(), testing::IsEmpty());
}

}  // namespace
}  // namespace mtrun::launcher

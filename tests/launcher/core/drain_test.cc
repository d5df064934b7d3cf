#include "launcher/core/drain.h"

#include <csignal>

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using Heard = Drain::Heard;

TimePoint AtMs(int milliseconds) { return TimePoint(std::chrono::milliseconds(milliseconds)); }

rendezvous::NodeLeft AskedBy(const std::string& user, const std::string& host) {
  return {.why = rendezvous::NodeLeft::Why::kOperator, .by = {user, host}};
}

TEST(DrainTest, SameSignalShortlyAfterwardsIsAnEcho) {
  Drain drain;
  EXPECT_EQ(drain.Describe(), "no signal");
  EXPECT_EQ(drain.Hear(SIGTERM, AtMs(0)), Heard::kFirst);
  const Drain before = drain;
  EXPECT_EQ(drain.Hear(SIGTERM, AtMs(499)), Heard::kEcho);
  EXPECT_EQ(drain, before);
  EXPECT_EQ(drain.Hear(SIGINT, AtMs(499)), Heard::kAgain) << "another signal counts";
  EXPECT_EQ(drain.Hear(SIGTERM, AtMs(500)), Heard::kAgain);
  EXPECT_EQ(drain.signal(), SIGTERM);
  EXPECT_EQ(drain.exit_code(), 128 + SIGTERM);
}

TEST(DrainTest, OnlyAnUnexpectedEndAbortsTheStep) {
  Drain drain;
  drain.Hear(SIGTERM, AtMs(0));
  const WorkerSlot slot;
  EXPECT_FALSE(drain.AbortsStep({.exit_code = 0}, slot));
  EXPECT_FALSE(drain.AbortsStep({.signal = SIGTERM}, slot)) << "the signal that it was sent";
  EXPECT_FALSE(drain.AbortsStep({.exit_code = 128 + SIGTERM}, slot));
  EXPECT_TRUE(drain.AbortsStep({.signal = SIGKILL}, slot));
  EXPECT_TRUE(drain.AbortsStep({.exit_code = 1}, slot));
  EXPECT_FALSE(drain.AbortsStep({.exit_code = 1}, WorkerSlot{.said_leaving = true}));
  EXPECT_FALSE(drain.AbortsStep({.exit_code = 1}, WorkerSlot{.said_done = true}));
}

constexpr WorkerSlot kLeft = {
    .life = WorkerSlot::Life::kGone, .rank = 0, .said_leaving = true, .exit_code = 0};

TEST(DrainTest, SucceedsIfAllWorkersLeftByThemselves) {
  WorkerSlots slots("node1");
  slots.Reset(1);
  slots[0] = kLeft;
  Drain drain;
  drain.Hear(SIGTERM, AtMs(0));
  drain.Begin(AtMs(30000));
  EXPECT_TRUE(drain.begun());
  EXPECT_EQ(drain.deadline(), AtMs(30000));
  EXPECT_FALSE(drain.complete());
  drain.Complete();
  EXPECT_EQ(drain.ExitCode(slots, true), 0);
  EXPECT_EQ(drain.ExitCode(slots, false), 128 + SIGTERM) << "nobody is left to do what is not done";
  slots[0].said_done = true;
  EXPECT_EQ(drain.ExitCode(slots, false), 0);
  EXPECT_EQ(drain.Describe(), "received SIGTERM; drains; complete");
}

/// For --drain_exit_code of the trainers.
TEST(DrainTest, ExitCodeIsTheWorkersCommonStatus) {
  WorkerSlots slots("node1");
  slots.Reset(3);
  for (int i = 0; i < 3; ++i) slots[i] = kLeft;
  Drain drain;
  drain.Hear(SIGUSR1, AtMs(0));
  drain.Complete();
  slots[0].exit_code = slots[2].exit_code = 85;
  EXPECT_EQ(drain.ExitCode(slots, true), 85) << "worker 1 left a step earlier, for the others continued";
  slots[2].exit_code = 86;
  EXPECT_EQ(drain.ExitCode(slots, true), 128 + SIGUSR1) << "they do not agree";
  slots[2].exit_code = -1;
  EXPECT_EQ(drain.ExitCode(slots, true), 128 + SIGUSR1) << "a signal ended one";
  slots[2] = WorkerSlot{.life = WorkerSlot::Life::kGone, .exit_code = 1};
  EXPECT_EQ(drain.ExitCode(slots, true), 85) << "one that was in no generation says nothing";
}

TEST(DrainTest, StoppedJobHasSignalExitCode) {
  WorkerSlots slots("node1");
  slots.Reset(2);
  slots[0] = slots[1] = kLeft;
  Drain asked, signalled;
  asked.Ask(AskedBy("anna", "login1"), true);
  for (Drain* drain : {&asked, &signalled}) {
    drain->Hear(SIGTERM, AtMs(0));
    drain->Complete();
  }
  EXPECT_EQ(asked.ExitCode(slots, true), 143);
  EXPECT_EQ(signalled.ExitCode(slots, true), 0);
  signalled.Ask(AskedBy("anna", "login1"), true);
  EXPECT_EQ(signalled.ExitCode(slots, true), 143) << "the others were stopped while this node left";
}

TEST(DrainTest, RequestActsLikeASignal) {
  Drain drain;
  EXPECT_TRUE(drain.Ask(AskedBy("anna", "login1"), false));
  EXPECT_EQ(drain.Hear(SIGTERM, AtMs(0)), Drain::Heard::kFirst);
  EXPECT_EQ(drain.why(), "was asked to leave by anna@login1");
  EXPECT_EQ(drain.exit_code(), 143);
  EXPECT_FALSE(drain.Ask(AskedBy("bob", "login2"), false)) << "it leaves already";
  EXPECT_EQ(drain.why(), "was asked to leave by anna@login1");
}

TEST(DrainTest, FirstSignalAfterARequestDoesNotEscalate) {
  Drain drain;
  drain.Ask(AskedBy("anna", "login1"), false);
  drain.Hear(SIGTERM, AtMs(0));
  EXPECT_EQ(drain.Hear(SIGUSR1, AtMs(2000)), Heard::kKnown) << "a scheduler's";
  EXPECT_EQ(drain.Hear(SIGUSR1, AtMs(2004)), Heard::kEcho) << "to each process of the step";
  EXPECT_EQ(drain.Hear(SIGUSR1, AtMs(2499)), Heard::kEcho);
  EXPECT_EQ(drain.Hear(SIGUSR1, AtMs(4000)), Heard::kAgain);
  EXPECT_EQ(drain.signal(), SIGTERM) << "the exit status is that of the request";
}

TEST(DrainTest, RequestAfterASignalIsIgnored) {
  Drain drain;
  drain.Hear(SIGINT, AtMs(0));
  EXPECT_FALSE(drain.Ask(AskedBy("anna", "login1"), false));
  EXPECT_EQ(drain.why(), "received SIGINT");
}

}  // namespace
}  // namespace mtrun::launcher

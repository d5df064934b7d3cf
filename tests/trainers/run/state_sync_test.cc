#include "trainers/run/loop/state_sync.h"

#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/trainers/support/fake_device.h"
#include "tests/trainers/support/rank_threads.h"

namespace mtrun::trainers {
namespace {

using testing::AwaitWaiting;
using testing::FakeNetwork;
using testing::RunRanks;
using testing::RunRanksWithDevices;

/// Returns tensors of every layout in a run: plain, with gradient, strided, empty.
NamedTensors Tensors(double value) {
  return {{"with_gradient", at::full({3, 2}, value).requires_grad_()},
          {"plain", at::full({100}, value)},
          {"strided", at::full({4, 3}, value).t()},
          {"empty", at::zeros({0})}};
}

TEST(StateSync, SourceValuesReachAllMembers) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    const NamedTensors tensors = Tensors(rank + 5);
    std::string text = absl::StrCat("progress of ", rank);
    ASSERT_TRUE(TakeOver(group, rank, /*source=*/1, /*receives=*/true, tensors, text).ok());
    for (const auto& [name, t] : tensors) EXPECT_TRUE(t.detach().equal(at::full_like(t.detach(), 6)));
    EXPECT_EQ(text, "progress of 1");
  });
}

/// An aborted NCCL leaves undefined numbers, but not in the tensors of a member that does not receive.
TEST(StateSync, NonReceiverKeepsItsOwnValues) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    const NamedTensors tensors = Tensors(rank + 5);
    std::string text;
    ASSERT_TRUE(TakeOver(group, rank, /*source=*/1, /*receives=*/rank == 0, tensors, text).ok());
    for (const auto& [name, t] : tensors)
      EXPECT_TRUE(t.detach().equal(at::full_like(t.detach(), rank == 2 ? 7 : 6))) << rank;
  });
}

collectives::DeviceMaker DevicesOf(const std::shared_ptr<FakeNetwork>& network) {
  return [network](const collectives::GroupMember& member, const std::shared_ptr<collectives::Bootstrap>&) {
    return network->DeviceOf(member.rank);
  };
}

TEST(StateSync, SourceValuesReachAllMembersWithDevices) {
  RunRanksWithDevices(3, DevicesOf(FakeNetwork::Make(3)), [](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    const NamedTensors tensors = Tensors(rank + 5);
    std::string text = absl::StrCat("progress of ", rank);
    EXPECT_EQ(TakeOver(*group, rank, /*source=*/1, /*receives=*/rank != 1, tensors, text), absl::OkStatus());
    for (const auto& [name, t] : tensors) EXPECT_TRUE(t.detach().equal(at::full_like(t.detach(), 6)));
    EXPECT_EQ(text, "progress of 1");
  });
}

/// The receivers only wait for the source, so the source is the one that hangs.
TEST(StateSync, ReceiversOfAStoppedSourceReportThatTheyWait) {
  std::latch waiting(2);
  RunRanksWithDevices(3, DevicesOf(FakeNetwork::Make(3)), [&](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    const bool source = rank == 1;
    std::thread receiver([&] {
      if (source) return;
      EXPECT_TRUE(AwaitWaiting(*group)) << "rank " << rank << " is taken for one that hangs";
      waiting.count_down();
    });
    if (source) waiting.wait();
    const NamedTensors tensors = Tensors(rank + 5);
    std::string text;
    EXPECT_EQ(TakeOver(*group, rank, /*source=*/1, /*receives=*/!source, tensors, text), absl::OkStatus());
    receiver.join();
  });
}

/// The source's device is aborted, and the receivers' broadcasts end without an error.
TEST(StateSync, ValuesOfAnAbortedSourceAreNotTakenOver) {
  const auto network = FakeNetwork::Make(3);
  RunRanksWithDevices(3, DevicesOf(network), [](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    if (!FirstMember(*group, false).ok()) return;  // wait until all are connected
    if (rank == 1) collectives::DeviceOf(*group)->Abort();
    const NamedTensors tensors = Tensors(rank + 5);
    std::string text;
    EXPECT_FALSE(TakeOver(*group, rank, /*source=*/1, /*receives=*/rank != 1, tensors, text).ok()) << rank;
  });
}

/// No other member joins the broadcast any more: the wait ends with the group.
TEST(StateSync, WaitOfAReceiverEndsWithItsGroup) {
  std::latch waiting(1);
  RunRanksWithDevices(2, DevicesOf(FakeNetwork::Make(2)), [&](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    if (rank == 1) {
      waiting.wait();
      return collectives::AbortGroup(*group, "the source is gone");
    }
    std::thread receiver([&] {
      EXPECT_TRUE(AwaitWaiting(*group));
      waiting.count_down();
    });
    const NamedTensors tensors = Tensors(5);
    std::string text;
    EXPECT_FALSE(TakeOver(*group, rank, /*source=*/1, /*receives=*/true, tensors, text).ok());
    receiver.join();
  });
}

TEST(StateSync, RivalStatesOfTheHighestPositionAreReportedToAll) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    checkpoints::Claim claim{.run = 9, .position = {2, 7, false}, .digest = static_cast<uint64_t>(rank)};
    if (rank == 0) claim.position.steps = 6;  // merely behind
    const absl::Status status = AgreeOnState(group, rank, 3, claim, 3).status();
    EXPECT_TRUE(IsRivalry(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "rank 1 and rank 2 are both at step 7 (generation 2)"))
        << status;
    claim.digest = 1;
    EXPECT_TRUE(AgreeOnState(group, rank, 3, claim, 3).ok());
  });
}

TEST(StateSync, DigestDependsOnTheValues) {
  EXPECT_EQ(DigestOf(Tensors(1)), DigestOf(Tensors(1)));
  EXPECT_NE(DigestOf(Tensors(1)), DigestOf(Tensors(2)));
}

TEST(StateSync, FlagOfOneMemberReachesAllMembers) {
  RunRanks(3, [](int rank, const collectives::ProcessGroup& group) {
    EXPECT_EQ(*FirstMember(group, rank >= 1), 1);
    EXPECT_EQ(*FirstMember(group, rank == 0), 0);
    EXPECT_EQ(*FirstMember(group, false), std::nullopt);
  });
}

}  // namespace
}  // namespace mtrun::trainers

// Uses a device without tensors, whose every answer is set by the test, together with real CPU groups.
#include "trainers/collectives/device_watch.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/collectives/run_ranks.h"

namespace mtrun::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

/// A device whose answers the test sets. Thread-safe.
class ScriptedDevice : public Device {
 public:
  absl::Status Connect() override {
    const MutexLock lock(mu_);
    while (!connected_) changed_.Wait(mu_);
    return *connected_;
  }
  absl::Status Error() override {
    const MutexLock lock(mu_);
    return error_;
  }
  void Abort() override {
    Change([this] { aborted_ = true; });
  }
  void BeginWait() override {}
  void EndWait() override {}
  uint64_t CurrentWait() override {
    const MutexLock lock(mu_);
    return wait_;
  }

  void EndConnect(absl::Status status) {
    Change([&] { connected_ = std::move(status); });
  }
  void Break(absl::Status error) {
    Change([&] { error_ = std::move(error); });
  }
  void ComeToWait(uint64_t number) {
    Change([&] { wait_ = number; });
  }
  bool aborted() const {
    const MutexLock lock(mu_);
    return aborted_;
  }
  void AwaitAbort() {
    const MutexLock lock(mu_);
    while (!aborted_) changed_.Wait(mu_);
  }

 private:
  template <typename Body>
  void Change(const Body& body) {
    const MutexLock lock(mu_);
    body();
    changed_.NotifyAll();
  }

  mutable Mutex mu_;
  Condition changed_;
  std::optional<absl::Status> connected_;  // this and the following: guarded by mu_
  absl::Status error_;
  bool aborted_ = false;
  uint64_t wait_ = 0;
};

std::shared_ptr<ScriptedDevice> ConnectedDevice() {
  auto device = std::make_shared<ScriptedDevice>();
  device->EndConnect(absl::OkStatus());
  return device;
}

/// Waits until the group has failed and returns its error.
absl::Status AwaitFailure(const Group& group) {
  while (group.status().ok()) std::this_thread::sleep_for(milliseconds(1));
  return group.status();
}

/// NCCL's initialisation waits half an hour for a dead member, and holds the lock that an abort needs.
TEST(DeviceWatchTest, ConnectEndsIfAPeerHasLeft) {
  RunThreads(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    if (context.rank == 1) return;  // it leaves before its device connects
    const auto device = std::make_shared<ScriptedDevice>();
    const TimePoint began = MonotonicNow();
    const auto watch = DeviceWatch::Connect(device, **group);
    EXPECT_FALSE(watch.ok());
    EXPECT_EQ(watch.status(), (*group)->status());
    EXPECT_LT(MonotonicNow() - began, seconds(30)) << "and not for ever";
    EXPECT_FALSE(device->aborted()) << "nobody may touch it while it connects";
    device->EndConnect(absl::OkStatus());
    device->AwaitAbort();  // it is no longer needed
  });
}

/// The connecting thread can still run when everything that the device needs has been destroyed.
TEST(DeviceWatchTest, ConnectedDeviceIsHeldOnlyByItsWatch) {
  RunThreads(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    for (int i = 0; i < 500; ++i) {
      const auto device = ConnectedDevice();
      const auto watch = DeviceWatch::Connect(device, **group);
      EXPECT_EQ(device.use_count(), 2) << "the test and the watch";
    }
  });
}

TEST(DeviceWatchTest, ConnectEndsIfAPeerIsKilled) {
  Ranks ranks(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    context.Tell("connected");
    const auto watch = DeviceWatch::Connect(std::make_shared<ScriptedDevice>(), **group);
    EXPECT_TRUE(absl::IsUnavailable(watch.status())) << watch.status();
    EXPECT_THAT(std::string(watch.status().message()), HasSubstr("rank 1"));
  });
  ASSERT_EQ(ranks.Hear(0), "connected");
  ASSERT_EQ(ranks.Hear(1), "connected");
  ranks.Signal(1, SIGKILL);
  EXPECT_EQ(ranks.Join(0), 0);
  EXPECT_EQ(ranks.Join(1), -SIGKILL);
}

/// Runs in a process of its own, which would notice a static destructor by its exit status.
void EndAfterAConnect(bool given_up) {
  std::atexit([] { std::_Exit(99); });
  RunThreads(1, [given_up](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    if (given_up) (*group)->Abort("a fault");
    const auto device = given_up ? std::make_shared<ScriptedDevice>() : ConnectedDevice();
    EXPECT_EQ(DeviceWatch::Connect(device, **group).ok(), !given_up);
  });
  static char buffer[100];
  std::setvbuf(stderr, buffer, _IOFBF, sizeof(buffer));
  std::fputs("what it has printed", stderr);
  ExitBesideConnects(3);
  std::exit(3);  // NOLINT(concurrency-mt-unsafe): what main() does
}

TEST(DeviceWatchDeathTest, ExitSkipsDestructorsWhileAThreadConnects) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(EndAfterAConnect(true), ::testing::ExitedWithCode(3), "what it has printed");
  EXPECT_EXIT(EndAfterAConnect(false), ::testing::ExitedWithCode(99), "");  // the static destructors run
}

TEST(DeviceWatchTest, FailedConnectEndsTheGroupForAllAndIsNamed) {
  RunThreads(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    const auto device = std::make_shared<ScriptedDevice>();
    if (context.rank == 0) device->EndConnect(absl::UnavailableError("no memory"));
    const auto watch = DeviceWatch::Connect(device, **group);
    ASSERT_FALSE(watch.ok());
    EXPECT_THAT(std::string(watch.status().message()),
                HasSubstr("rank 0 cannot connect its device: no memory"));
    if (context.rank == 1) device->EndConnect(absl::OkStatus());
    device->AwaitAbort();
  });
}

TEST(DeviceWatchTest, UnawaitedErrorReachesEveryMember) {
  RunThreads(3, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    const auto device = ConnectedDevice();
    const auto watch = DeviceWatch::Connect(device, **group);
    ASSERT_TRUE(watch.ok()) << watch.status();
    EXPECT_TRUE((*watch)->status().ok());
    const absl::Status met = ReduceOnes(**group);  // the error may already be set if it ends last
    if (context.rank == 2) {
      ASSERT_TRUE(met.ok()) << met;
      device->Break(absl::UnavailableError("ECC error"));
    }
    EXPECT_THAT(std::string(AwaitFailure(**group).message()), HasSubstr("the device of rank 2: ECC error"));
    device->AwaitAbort();
    EXPECT_FALSE((*watch)->status().ok());
  });
}

TEST(DeviceWatchTest, GroupFailureAbortsTheDevice) {
  RunThreads(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    const auto device = ConnectedDevice();
    const auto watch = DeviceWatch::Connect(device, **group);
    if (context.rank == 0) (*group)->Abort("the agent says so");
    device->AwaitAbort();  // rank 1's too, even if it was not yet connected
    EXPECT_THAT(std::string((watch.ok() ? (*watch)->status() : watch.status()).message()),
                HasSubstr("the agent says so"));
  });
}

TEST(DeviceWatchTest, OrderlyEndAbortsNothing) {
  RunThreads(1, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    const auto device = ConnectedDevice();
    { ASSERT_TRUE(DeviceWatch::Connect(device, **group).ok()); }
    EXPECT_FALSE(device->aborted());
  });
}

/// The member shuts down in order, for example because of its own error; the device would wait for it.
TEST(DeviceWatchTest, MemberThatLeavesWhileOthersWaitBreaksTheGroup) {
  RunThreads(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    const auto device = ConnectedDevice();
    const auto watch = DeviceWatch::Connect(device, **group);
    ASSERT_TRUE(watch.ok()) << watch.status();
    ASSERT_TRUE(ReduceOnes(**group).ok());
    if (context.rank == 1) return;
    while ((*group)->first_left() < 0) std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(2 * DeviceWatch::kLookEvery);
    EXPECT_TRUE((*watch)->status().ok()) << "nobody needs it any more";
    device->ComeToWait(1);
    device->AwaitAbort();
    EXPECT_THAT(std::string((*group)->status().message()),
                HasSubstr("rank 1 left while rank 0 waits for its sums"));
    EXPECT_EQ((*watch)->waiting_for(), Duration::zero()) << "it waits for nobody any more";
  });
}

/// A device that hangs must be distinguished from those that wait for it.
TEST(DeviceWatchTest, DeviceWaitsOnlyAfterItsOwnWork) {
  RunThreads(1, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    const auto device = ConnectedDevice();
    const auto watch = DeviceWatch::Connect(device, **group);
    ASSERT_TRUE(watch.ok()) << watch.status();
    std::this_thread::sleep_for(3 * DeviceWatch::kLookEvery);
    EXPECT_EQ((*watch)->waiting_for(), Duration::zero()) << "its device computes, or hangs";
    device->ComeToWait(1);
    while ((*watch)->waiting_for() == Duration::zero()) std::this_thread::sleep_for(milliseconds(1));
    device->ComeToWait(0);
    while ((*watch)->waiting_for() != Duration::zero()) std::this_thread::sleep_for(milliseconds(1));
  });
}

/// A step with synchronised batch normalisation has many short waits; none of them is a hang.
TEST(DeviceWatchTest, EachWaitStartsFromZero) {
  RunThreads(1, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    const auto device = ConnectedDevice();
    const auto watch = DeviceWatch::Connect(device, **group);
    ASSERT_TRUE(watch.ok()) << watch.status();
    device->ComeToWait(1);
    const Duration first = 5 * DeviceWatch::kLookEvery;
    while ((*watch)->waiting_for() < first) std::this_thread::sleep_for(milliseconds(1));
    device->ComeToWait(2);
    const TimePoint began = MonotonicNow();
    while ((*watch)->waiting_for() >= first && MonotonicNow() - began < seconds(30))
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_LT((*watch)->waiting_for(), first);
  });
}

}  // namespace
}  // namespace mtrun::collectives

// Tests what a rank exposes to a peer that was stopped and does not know that the group has failed. The peer
// must find the same bytes, because it may find all ranks in the last phase too.
#include "trainers/collectives/transport.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "tests/support/asleep.h"
#include "tests/support/status.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/futex.h"
#include "trainers/collectives/group.h"
#include "trainers/collectives/mesh.h"
#include "trainers/collectives/reduce.h"
#include "trainers/collectives/shutdown_notice.h"

namespace mtrun::collectives {
namespace {

using support::StatusIs;
using ::testing::HasSubstr;

const absl::Duration kTestPatience = absl::Seconds(30);  // only tests that fail wait for so long
constexpr char kOldGeneration[] = "1.a";
constexpr size_t kSlotBytes = 1 << 20;
constexpr size_t kElements = 100'000;  // one block, more than fits in one phase
constexpr size_t kFewElements = 1000;

/// Rank 0 of two. It has no monitor: like a rank that was stopped, it learns only what its own calls find.
class StoppedRank {
 public:
  explicit StoppedRank(const std::string& folder) {
    const uint64_t generation = GenerationHash(kOldGeneration);
    auto own = OwnSegment::Create(generation, 0, 2, kSlotBytes);
    MT_CHECK(own.ok()) << own.status();
    const auto file = (*own)->ReadOnly();
    MT_CHECK(file.ok()) << file.status();
    FolderBootstrap bootstrap(folder);
    const GroupMember membership = {
        .rank = 0, .world_size = 2, .generation = kOldGeneration, .address = "127.0.0.1"};
    const MeshOptions options = {.host_id = "host0"};
    auto peers = ConnectMesh(membership, bootstrap, file->get(), options);
    MT_CHECK(peers.ok()) << peers.status();
    peers_ = *std::move(peers);
    theirs_ = UniqueFd(fcntl(peers_[1].segment.get(), F_DUPFD_CLOEXEC, 0));
    auto watched =
        PeerSegment::Open(UniqueFd(fcntl(theirs_.get(), F_DUPFD_CLOEXEC, 0)), generation, 1, 2, kSlotBytes);
    MT_CHECK(watched.ok()) << watched.status();
    watched_ = *std::move(watched);
    transport_.emplace(0, generation, *std::move(own), peers_, failure_);
    MT_CHECK(transport_->Open().ok());
  }

  /// Enters the next phase of an all-reduce of `count` elements and exposes `value` for all of them.
  absl::Status Enter(size_t count, float value) {
    std::fill_n(reinterpret_cast<float*>(transport_->NextSlot()), count, value);
    Phase phase;
    phase.call = {.operation = Operation::kAllReduce,
                  .dtype = DataType::kFloat32,
                  .reduce = ReduceOp::kSum,
                  .count = count};
    return transport_->Exchange(phase);
  }
  /// Tells rank 1 that this rank leaves in order.
  void Leave() {
    const std::string notice = Encode(ShutdownNotice{.graceful = true, .why = ""});
    MT_CHECK(WriteAll(peers_[1].control.get(), notice).ok());
  }
  /// Sleeps until rank 1 has entered `phase`.
  void Await(uint32_t phase) {
    transport_->segment().header().sleeping.store(1);
    const std::atomic<uint32_t>& word = watched_->header().phase;
    for (uint32_t seen = word.load(); seen < phase; seen = word.load()) FutexWait(word, seen);
    transport_->segment().header().sleeping.store(0);
  }
  /// Returns what rank 1 exposes in this rank's current phase.
  std::vector<float> See(size_t count) {
    const auto view = transport_->View(1, count * sizeof(float));
    MT_CHECK(view.ok()) << view.status();
    std::vector<float> seen(count);
    std::memcpy(seen.data(), *view, count * sizeof(float));
    return seen;
  }
  /// Returns the number of bytes that rank 1's segment occupies.
  size_t BytesOfPeer() const {
    struct stat status = {};
    MT_CHECK(fstat(theirs_.get(), &status) == 0);
    return static_cast<size_t>(status.st_blocks) * 512;
  }

 private:
  Failure failure_;
  std::vector<Peer> peers_;
  UniqueFd theirs_;
  std::unique_ptr<PeerSegment> watched_;
  std::optional<Transport> transport_;
};

class StoppedPeerTest : public ::testing::Test {
 protected:
  StoppedPeerTest() {
    auto folder = MakeTemporaryFolder("mtrun-stopped-");
    MT_CHECK(folder.ok()) << folder.status();
    std::thread other([&] {
      auto group = ConnectAs(*folder, 1, 2, kOldGeneration, {}, kSlotBytes);
      MT_CHECK(group.ok()) << group.status();
      group_ = *std::move(group);
    });
    stopped_.emplace(*folder);
    other.join();
    std::filesystem::remove_all(*folder);
  }

  std::shared_ptr<Work> Sum(void* data, size_t count) {
    return group_->AllReduce(data, count, DataType::kFloat32, ReduceOp::kSum);
  }
  std::shared_ptr<char> Shared(size_t count, float value) {
    auto shared = group_->Allocate(count * sizeof(float));
    MT_CHECK(shared.ok()) << shared.status();
    std::fill_n(reinterpret_cast<float*>(shared->get()), count, value);
    return *std::move(shared);
  }

  std::optional<StoppedRank> stopped_;  // rank 0
  std::unique_ptr<Group> group_;        // rank 1's
};

TEST_F(StoppedPeerTest, ResultFreedAfterAFailureStaysForPeersThatReadIt) {
  std::shared_ptr<char> shared = Shared(kElements, 1);
  std::shared_ptr<Work> sum = Sum(shared.get(), kElements);
  ASSERT_TRUE(stopped_->Enter(kElements, 2).ok());
  ASSERT_TRUE(stopped_->Enter(kElements, 3).ok());
  stopped_->Await(3);  // rank 1 has all that it needs; rank 0 is stopped before it copies
  group_->Abort("a third rank died");
  EXPECT_TRUE(absl::IsAborted(sum->Wait()));
  sum.reset();
  shared.reset();
  group_.reset();
  const size_t chunk = ChunkOf(kElements, sizeof(float), 1, 2).size();
  EXPECT_EQ(stopped_->See(chunk), std::vector<float>(chunk, 3));
  EXPECT_TRUE(stopped_->Enter(kElements, 0).ok()) << "it finds everybody in the last phase: this counts";
}

TEST_F(StoppedPeerTest, ResultThatAllHaveReadIsFreed) {
  std::shared_ptr<char> shared = Shared(kElements, 1);
  std::shared_ptr<Work> sum = Sum(shared.get(), kElements);
  for (const float value : {2, 3, 0}) ASSERT_TRUE(stopped_->Enter(kElements, value).ok());
  ASSERT_TRUE(sum->Wait().ok());
  const size_t before = stopped_->BytesOfPeer();
  shared.reset();
  EXPECT_LE(stopped_->BytesOfPeer(), before - kElements * sizeof(float));
}

// Operations can be queued after the one that fails.
TEST_F(StoppedPeerTest, NoOperationAfterAFailureWritesIntoASlot) {
  std::vector<float> first(kFewElements, 1), second(kFewElements, 5), third(kFewElements, 6);
  const std::shared_ptr<Work> sum = Sum(first.data(), kFewElements);
  ASSERT_TRUE(stopped_->Enter(kFewElements, 2).ok());
  ASSERT_TRUE(sum->Wait().ok());
  const std::shared_ptr<Work> fails = Sum(second.data(), kFewElements),
                              waits = Sum(third.data(), kFewElements);
  stopped_->Await(2);
  group_->Abort("a third rank died");
  EXPECT_TRUE(absl::IsAborted(fails->Wait()));
  EXPECT_TRUE(absl::IsAborted(waits->Wait()));
  EXPECT_EQ(stopped_->See(kFewElements), std::vector<float>(kFewElements, 1));
}

TEST_F(StoppedPeerTest, OperationThatFailsBreaksTheGroup) {
  std::vector<float> first(kFewElements, 1), second(kFewElements, 5);
  const std::shared_ptr<Work> sum = Sum(first.data(), kFewElements);
  EXPECT_FALSE(stopped_->Enter(kElements, 2).ok());
  const absl::Status why = sum->Wait();
  ASSERT_THAT(why, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ranks make different calls")));
  ASSERT_EQ(group_->status(), why);
  EXPECT_EQ(Sum(second.data(), kFewElements)->Wait(), why) << "rank 0 never enters this one";
}

TEST_F(StoppedPeerTest, ClosingAGroupEndsTheOperationInProgress) {
  std::vector<float> data(kFewElements, 1);
  const std::shared_ptr<Work> sum = Sum(data.data(), kFewElements);
  stopped_->Await(1);
  absl::Notification closed;
  std::thread closer([&] {
    group_.reset();
    closed.Notify();
  });
  if (!closed.WaitForNotificationWithTimeout(kTestPatience)) {
    ADD_FAILURE() << "it waits for rank 0";
    stopped_->Enter(kFewElements, 2).IgnoreError();
  }
  closer.join();
  EXPECT_EQ(sum->Wait(), absl::AbortedError("the process group was closed with operations in progress"));
}

/// Rank 0 leaves when rank 1 has found it still there, and is about to sleep: the first wake-up finds no sleeper.
TEST_F(StoppedPeerTest, WakeUpThatComesBeforeTheSleepIsRepeated) {
  static StoppedRank* leaves;
  static absl::Notification* woken;
  absl::Notification first_wake, ended;
  leaves = &*stopped_;
  woken = &first_wake;
  futex_hooks.after_wake = [] {
    if (!woken->HasBeenNotified()) woken->Notify();
  };
  futex_hooks.before_wait = [] {
    futex_hooks.before_wait = nullptr;
    leaves->Leave();
    woken->WaitForNotification();
  };
  std::vector<float> data(kFewElements, 1);
  const auto sum = group_->AllReduce(data.data(), kFewElements, DataType::kFloat32, ReduceOp::kSum,
                                     [&](const absl::Status&) { ended.Notify(); });
  if (!ended.WaitForNotificationWithTimeout(kTestPatience)) {
    ADD_FAILURE() << "it sleeps for ever";
    group_->Abort("the test ends");
  }
  EXPECT_THAT(sum->Wait(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("has left the group before all-reduce")));
  group_.reset();  // its monitor may still be about to call
  futex_hooks.before_wait = nullptr;
  futex_hooks.after_wake = nullptr;
}

/// A data connection closes without a reason, which arrives a moment later over the control connection.
TEST(TransportTest, ReasonOfAClosedConnectionIsAwaited) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  std::vector<Peer> peers(2);
  peers[1].rank = 1;
  peers[1].name = "rank 1 (pid 7 on b)";
  peers[1].data = UniqueFd(ends[0]);
  const std::string key(FrameCipher::kKeyBytes, 'k');
  peers[1].seal = std::make_unique<FrameCipher>(key, Protection::kTag, FrameCipher::Use::kSeal);
  peers[1].open = std::make_unique<FrameCipher>(key, Protection::kTag, FrameCipher::Use::kOpen);
  auto segment = OwnSegment::Create(/*generation=*/1, /*rank=*/0, /*world=*/2, kSlotBytes);
  ASSERT_TRUE(segment.ok()) << segment.status();
  Failure failure;
  Transport transport(0, 1, *std::move(segment), peers, failure, /*reason_patience=*/std::chrono::hours(1));
  ASSERT_TRUE(transport.Open().ok());
  close(ends[1]);
  std::atomic<pid_t> exchanges = 0;
  std::atomic<bool> done = false;
  absl::Status status;
  std::thread exchange([&] {
    exchanges = support::ThreadId();
    Phase phase;
    phase.call.operation = Operation::kBarrier;
    status = transport.Exchange(phase);
    done = true;
  });
  while (exchanges == 0) std::this_thread::yield();
  EXPECT_TRUE(support::AwaitAsleep(exchanges, [&] { return done.load(); })) << "it waits for no reason";
  failure.Set(absl::AbortedError("rank 1 gave up: a third rank died"));
  exchange.join();
  EXPECT_EQ(status, absl::AbortedError("rank 1 gave up: a third rank died"));
}

}  // namespace
}  // namespace mtrun::collectives

// Tests what a rank exposes to a peer that was stopped and does not know that the group has failed. The peer
// must find the same bytes, because it may find all ranks in the last phase too.
#include "trainers/collectives/transport.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/status_macros.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/futex.h"
#include "trainers/collectives/group.h"
#include "trainers/collectives/mesh.h"
#include "trainers/collectives/reduce.h"

namespace mtrun::collectives {
namespace {

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

}  // namespace
}  // namespace mtrun::collectives

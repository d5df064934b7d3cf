// Checks the results of every operation, for every layout of ranks over hosts.
#include "trainers/collectives/group.h"

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/reduce.h"

namespace mtrun::collectives {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kInt64, DataType::kUint8,
                               DataType::kBFloat16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax, ReduceOp::kMin};

// Returns small integers times odd fractions, so that sums in another order round differently.
std::string MakeInput(int rank, size_t count, DataType dtype) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) * 1000003 + count);
  std::string bytes(count * SizeOf(dtype), '\0');
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = random();
    const float value = (static_cast<float>(bits % 2001) - 1000.0f) * 0.3f;
    char* at = bytes.data() + i * SizeOf(dtype);
    uint32_t single;
    const double wide = static_cast<double>(value) / 7;
    switch (dtype) {
      case DataType::kFloat32:
        std::memcpy(at, &value, 4);
        break;
      case DataType::kFloat64:
        std::memcpy(at, &wide, 8);
        break;
      case DataType::kInt64:
        std::memcpy(at, &bits, 8);
        break;
      case DataType::kUint8:
        std::memcpy(at, &bits, 1);
        break;
      case DataType::kBFloat16:
        std::memcpy(&single, &value, 4);
        single >>= 16;
        std::memcpy(at, &single, 2);
        break;
    }
  }
  return bytes;
}

std::string Reduced(DataType dtype, ReduceOp op, const std::vector<std::string>& inputs, size_t count) {
  std::vector<const void*> pointers;
  for (const std::string& input : inputs) pointers.push_back(input.data());
  std::string output(count * SizeOf(dtype), '\0');
  Reduce(dtype, op, pointers, output.data(), count);
  return output;
}

/// Adds by halves, the first of which is the larger one.
std::string AddedByHalves(int begin, int end, size_t count, DataType dtype, ReduceOp op) {
  if (end - begin == 1) return MakeInput(begin, count, dtype);
  const int middle = begin + (end - begin + 1) / 2;
  return Reduced(
      dtype, op,
      {AddedByHalves(begin, middle, count, dtype, op), AddedByHalves(middle, end, count, dtype, op)}, count);
}

std::string Expected(int world, size_t count, DataType dtype, ReduceOp op) {
  if (dtype == DataType::kBFloat16) {
    std::vector<std::string> inputs;
    for (int rank = 0; rank < world; ++rank) inputs.push_back(MakeInput(rank, count, dtype));
    return Reduced(dtype, op, inputs, count);
  }
  if (op != ReduceOp::kAverage) return AddedByHalves(0, world, count, dtype, op);
  std::string sum = AddedByHalves(0, world, count, dtype, ReduceOp::kSum);
  Divide(dtype, sum.data(), count, world);
  return sum;
}

void CheckAllReduces(Group& group, size_t count, DataType dtype) {
  for (ReduceOp op : kOps) {
    if (op == ReduceOp::kAverage && (dtype == DataType::kInt64 || dtype == DataType::kUint8)) continue;
    const std::string where = Describe(Call{Operation::kAllReduce, dtype, op, 0, 0, count});
    const std::string expected = Expected(group.size(), count, dtype, op);
    std::string data = MakeInput(group.rank(), count, dtype);
    const absl::Status status = group.AllReduce(data.data(), count, dtype, op)->Wait();
    ASSERT_TRUE(status.ok()) << where << status;
    ASSERT_TRUE(data == expected) << where;
    // Repeats this with shared memory, and with shared and ordinary memory mixed across the ranks.
    for (bool mixed : {false, true}) {
      data = MakeInput(group.rank(), count, dtype);
      auto shared = group.Allocate(data.size());
      ASSERT_EQ(shared.ok(), group.has_local_peers()) << shared.status();
      char* memory = !shared.ok() || (mixed && group.rank() % 2 == 1) ? data.data() : shared->get();
      if (memory != data.data() && !data.empty()) std::memcpy(memory, data.data(), data.size());
      ASSERT_TRUE(group.AllReduce(memory, count, dtype, op)->Wait().ok()) << where;
      ASSERT_TRUE(data.empty() || std::memcmp(memory, expected.data(), expected.size()) == 0)
          << where << " shared";
    }
  }
}

/// Checks notes that are sent with small and large sums, in shared and ordinary memory, several at a time.
void CheckNotes(Group& group, size_t count) {
  const std::string expected = Expected(group.size(), count, DataType::kFloat32, ReduceOp::kSum);
  const auto note = [&](int rank, size_t bytes) {
    return absl::StrCat("rank ", rank, " of ", count, std::string(bytes, static_cast<char>('a' + rank)))
        .substr(0, bytes);
  };
  auto shared = group.Allocate(expected.size());
  std::vector<std::string> data(4, MakeInput(group.rank(), count, DataType::kFloat32));
  if (shared.ok() && count > 0) std::memcpy(shared->get(), data[3].data(), data[3].size());
  std::vector<std::shared_ptr<Notes>> notes;
  std::vector<std::shared_ptr<Work>> works;
  const auto reduce = [&](void* memory, size_t bytes) {
    notes.push_back(std::make_shared<Notes>(Notes{note(group.rank(), bytes), {}}));
    works.push_back(group.AllReduce(memory, count, DataType::kFloat32, ReduceOp::kSum, nullptr,
                                    Group::Start::kNow, notes.back()));
  };
  const std::vector<size_t> sizes = {0, 56, kMaxNoteBytes};
  for (size_t i = 0; i < sizes.size(); ++i) reduce(data[i].data(), sizes[i]);
  reduce(shared.ok() ? shared->get() : data[3].data(), 56);
  for (const auto& work : works) ASSERT_TRUE(work->Wait().ok()) << work->status();
  if (shared.ok()) data[3].assign(shared->get(), expected.size());
  for (const std::string& sum : data) ASSERT_TRUE(sum == expected) << count;
  for (const auto& told : notes) {
    ASSERT_EQ(told->all.size(), static_cast<size_t>(group.size()));
    for (int rank = 0; rank < group.size(); ++rank)
      ASSERT_EQ(told->all[static_cast<size_t>(rank)], note(rank, told->own.size())) << "rank " << rank;
  }
}

void CheckBroadcasts(Group& group, size_t count) {
  for (int root = 0; root < group.size(); ++root) {
    const std::string expected = MakeInput(root, count, DataType::kFloat32);
    std::string data = group.rank() == root ? expected : std::string(expected.size(), 'x');
    ASSERT_TRUE(group.Broadcast(data.data(), count, DataType::kFloat32, root)->Wait().ok());
    ASSERT_TRUE(data == expected) << count << " elements from rank " << root;
  }
}

void CheckAllGathers(Group& group, size_t count) {
  const std::string input = MakeInput(group.rank(), count, DataType::kInt64);
  std::vector<std::string> outputs(static_cast<size_t>(group.size()), std::string(input.size(), 'x'));
  std::vector<void*> targets;
  for (std::string& output : outputs) targets.push_back(output.data());
  ASSERT_TRUE(group.AllGather(input.data(), targets, count, DataType::kInt64)->Wait().ok());
  for (int rank = 0; rank < group.size(); ++rank) {
    ASSERT_TRUE(outputs[static_cast<size_t>(rank)] == MakeInput(rank, count, DataType::kInt64))
        << "rank " << rank;
  }
}

// Runs all checks of one rank. Small slots make many blocks of few bytes.
void CheckEverything(const RankContext& context, const std::vector<int>& hosts, size_t slot_bytes,
                     bool thorough) {
  auto group = context.Connect("7.abc", hosts, slot_bytes);
  ASSERT_TRUE(group.ok()) << group.status();
  const std::vector<size_t> counts = thorough ? std::vector<size_t>{0, 1, 3, 17, 1000, 8191, 65537, 150001}
                                              : std::vector<size_t>{0, 5, 70001};
  for (size_t count : counts) {
    for (DataType dtype : kTypes) ASSERT_NO_FATAL_FAILURE(CheckAllReduces(**group, count, dtype));
    ASSERT_NO_FATAL_FAILURE(CheckNotes(**group, count));
    ASSERT_NO_FATAL_FAILURE(CheckBroadcasts(**group, count));
    ASSERT_NO_FATAL_FAILURE(CheckAllGathers(**group, count));
    ASSERT_TRUE((*group)->Barrier()->Wait().ok());
  }
}

class GroupLayoutTest : public ::testing::TestWithParam<Layout> {};

TEST_P(GroupLayoutTest, EveryOperationIsExact) {
  const std::vector<int>& hosts = GetParam().hosts;
  RunProcesses(static_cast<int>(hosts.size()), [&](const RankContext& context) {
    CheckEverything(context, hosts, 64 * 1024, hosts.size() <= 4);
  });
}

class GroupThreadsTest : public ::testing::TestWithParam<Layout> {};

// Runs the ranks as threads, because race and leak detectors see only one process.
TEST_P(GroupThreadsTest, EveryOperationIsExact) {
  const std::vector<int>& hosts = GetParam().hosts;
  RunThreads(static_cast<int>(hosts.size()),
             [&](const RankContext& context) { CheckEverything(context, hosts, 16 * 1024, false); });
}

INSTANTIATE_TEST_SUITE_P(Layouts, GroupThreadsTest,
                         ::testing::Values(Layout{"Shm2", {0, 0}}, Layout{"Shm3", {0, 0, 0}},
                                           Layout{"Tcp2", {0, 1}}, Layout{"Mixed2and2", {0, 0, 1, 1}}),
                         [](const auto& layout) { return layout.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Layouts, GroupLayoutTest,
    ::testing::Values(Layout{"Shm1", {0}}, Layout{"Shm2", {0, 0}}, Layout{"Shm3", {0, 0, 0}},
                      Layout{"Shm4", {0, 0, 0, 0}}, Layout{"Shm5", {0, 0, 0, 0, 0}},
                      Layout{"Shm6", {0, 0, 0, 0, 0, 0}}, Layout{"Shm7", {0, 0, 0, 0, 0, 0, 0}},
                      Layout{"Shm8", {0, 0, 0, 0, 0, 0, 0, 0}}, Layout{"Tcp2", {0, 1}},
                      Layout{"Tcp3", {0, 1, 2}}, Layout{"Tcp4", {0, 1, 2, 3}},
                      Layout{"Mixed2and2", {0, 0, 1, 1}}, Layout{"MixedInterleaved", {0, 1, 0, 1}},
                      Layout{"Mixed2and1", {0, 0, 1}}, Layout{"Mixed3and5", {0, 0, 0, 1, 1, 1, 1, 1}},
                      Layout{"Mixed2of4", {0, 0, 1, 1, 2, 2, 3, 3}},
                      Layout{"Mixed3and1and2", {0, 1, 0, 2, 2, 0}}),
    [](const auto& layout) { return layout.param.name; });

TEST(GroupTest, AsynchronousWorksRunInOrderAndOverlapWithTheCaller) {
  RunProcesses(3, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    constexpr size_t kCount = 500;
    std::vector<std::vector<float>> data(200,
                                         std::vector<float>(kCount, static_cast<float>(context.rank + 1)));
    std::vector<std::shared_ptr<Work>> works;
    for (auto& part : data)
      works.push_back((*group)->AllReduce(part.data(), kCount, DataType::kFloat32, ReduceOp::kSum));
    // Wait for the last one first: all earlier ones must then be done.
    ASSERT_TRUE(works.back()->Wait().ok());
    for (const auto& work : works) EXPECT_TRUE(work->done());
    for (const auto& part : data) EXPECT_EQ(part, std::vector<float>(kCount, 6.0f));
  });
}

TEST(GroupTest, TooLongNoteIsRefusedAndTheGroupContinues) {
  RunThreads(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    float one = 1;
    const auto notes = std::make_shared<Notes>(Notes{std::string(kMaxNoteBytes + 1, 'x'), {}});
    EXPECT_TRUE(absl::IsInvalidArgument(
        (*group)
            ->AllReduce(&one, 1, DataType::kFloat32, ReduceOp::kSum, nullptr, Group::Start::kNow, notes)
            ->Wait()));
    EXPECT_TRUE(ReduceOnes(**group).ok());
  });
}

/// The peer may be a member of another version.
TEST(GroupTest, NotesOfDifferentLengthsAreDifferentCalls) {
  RunThreads(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    float one = 1;
    const auto notes = std::make_shared<Notes>(Notes{std::string(context.rank == 0 ? 8 : 9, 'x'), {}});
    const absl::Status status =
        (*group)
            ->AllReduce(&one, 1, DataType::kFloat32, ReduceOp::kSum, nullptr, Group::Start::kNow, notes)
            ->Wait();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("a note of "), absl::string_view::npos) << status;
  });
}

TEST(GroupTest, RepeatedRunsGiveTheSameBitsInEveryLayout) {
  std::map<std::string, std::string> results;
  for (const std::vector<int>& hosts :
       {std::vector<int>{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 2, 3}, {0, 0, 0, 0}}) {
    Ranks ranks(4, [&](const RankContext& context) {
      auto group = context.Connect("1.a", hosts);
      ASSERT_TRUE(group.ok()) << group.status();
      std::string data = MakeInput(context.rank, 300001, DataType::kFloat32);
      ASSERT_TRUE((*group)->AllReduce(data.data(), 300001, DataType::kFloat32, ReduceOp::kSum)->Wait().ok());
      context.Tell(absl::StrCat(GenerationHash(data)));
    });
    for (int rank = 0; rank < 4; ++rank) {
      results[absl::StrCat(absl::StrJoin(hosts, ","), " rank ", rank)] = ranks.Hear(rank);
    }
    ranks.ExpectAllWell();
  }
  for (const auto& [where, digest] : results) EXPECT_EQ(digest, results.begin()->second) << where;
}

TEST(GroupTest, WorldOfOneNeedsNoBootstrap) {
  auto group = Group::Connect(GroupMember(), nullptr);
  ASSERT_TRUE(group.ok());
  float x = 3, y = 0;
  EXPECT_TRUE((*group)->AllReduce(&x, 1, DataType::kFloat32, ReduceOp::kSum)->Wait().ok());
  EXPECT_TRUE((*group)->AllGather(&x, {&y}, 1, DataType::kFloat32)->Wait().ok());
  EXPECT_TRUE((*group)->Broadcast(&x, 1, DataType::kFloat32, 0)->Wait().ok());
  EXPECT_TRUE((*group)->Barrier()->Wait().ok());
  EXPECT_EQ(x, 3);
  EXPECT_EQ(y, 3);
  (*group)->Abort("enough");
  EXPECT_EQ((*group)->Barrier()->Wait().message(), "enough");
}

TEST(GroupTest, InvalidArgumentsAreRefusedAndLeaveTheGroupAlive) {
  RunProcesses(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    int64_t x = 1;
    EXPECT_TRUE(
        absl::IsInvalidArgument((*group)->AllReduce(&x, 1, DataType::kInt64, ReduceOp::kAverage)->Wait()));
    EXPECT_TRUE(absl::IsInvalidArgument((*group)->Broadcast(&x, 1, DataType::kInt64, 2)->Wait()));
    EXPECT_TRUE(absl::IsInvalidArgument((*group)->AllGather(&x, {&x}, 1, DataType::kInt64)->Wait()));
    EXPECT_TRUE((*group)->AllReduce(&x, 1, DataType::kInt64, ReduceOp::kSum)->Wait().ok());
    EXPECT_EQ(x, 2);
  });
  GroupMember outside;
  outside.rank = 2;
  outside.world_size = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(Group::Connect(outside, nullptr).status()));
}

TEST(GroupTest, MismatchedCallsAreNamed) {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0}, std::vector<int>{0, 1}}) {
    RunProcesses(2, [&](const RankContext& context) {
      auto group = context.Connect("1.a", hosts);
      ASSERT_TRUE(group.ok()) << group.status();
      std::vector<float> data(100, 1.0f);
      const absl::Status status =
          (context.rank == 0 ? (*group)->AllReduce(data.data(), 100, DataType::kFloat32, ReduceOp::kSum)
                             : (*group)->Broadcast(data.data(), 7, DataType::kFloat32, 0))
              ->Wait();
      EXPECT_FALSE(status.ok());
      if (absl::IsInvalidArgument(status)) {
        EXPECT_NE(status.message().find("all-reduce(sum, float32, 100 elements)"), absl::string_view::npos)
            << status;
        EXPECT_NE(status.message().find("broadcast(from rank 0, float32, 7 elements)"),
                  absl::string_view::npos)
            << status;
      } else {
        EXPECT_NE(status.message().find("ranks make different calls"), absl::string_view::npos)
            << status;  // as reported by the peer
      }
    });
  }
}

}  // namespace
}  // namespace mtrun::collectives

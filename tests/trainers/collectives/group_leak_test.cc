// Checks that a group leaves no descriptor, mapping or file behind, except memory that is still in use.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "tests/trainers/collectives/run_ranks.h"
#include "trainers/collectives/group.h"

namespace mtrun::collectives {
namespace {

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns only mtrun's files, because other programs create and remove files there.
std::vector<std::string> SharedFiles() {
  std::vector<std::string> names = FilesIn("/dev/shm");
  std::erase_if(names, [](const std::string& name) { return !absl::StrContains(name, "mtrun"); });
  return names;
}

TEST(GroupLeakTest, TwoHundredGroupsLeaveNoDescriptorNoMappingAndNoFile) {
  const std::vector<std::string> shared_before = SharedFiles();
  size_t descriptors_before = 0;
  for (int round = 0; round < 200; ++round) {
    RunThreads(2, [&](const RankContext& context) {
      auto group = context.Connect(absl::StrCat(round, ".leak"), {0, round % 2});
      ASSERT_TRUE(group.ok()) << group.status();
      auto shared = (*group)->Allocate(100);
      ASSERT_TRUE(ReduceOnes(**group).ok());
    });
    if (round == 0) descriptors_before = FilesIn("/proc/self/fd").size();
  }
  EXPECT_EQ(FilesIn("/proc/self/fd").size(), descriptors_before);
  EXPECT_EQ(SharedFiles(), shared_before);
  auto maps = ReadFile("/proc/self/maps");
  ASSERT_TRUE(maps.ok());
  EXPECT_FALSE(absl::StrContains(*maps, "mtrun-collectives"));
}

TEST(GroupLeakTest, KilledRanksLeaveNoFile) {
  const std::vector<std::string> before = SharedFiles();
  Ranks ranks(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    auto shared = (*group)->Allocate(1 << 20);
    context.Tell("connected");
    pause();
  });
  for (int rank : {0, 1}) ASSERT_EQ(ranks.Hear(rank), "connected");
  for (int rank : {0, 1}) ranks.Signal(rank, SIGKILL);
  for (int rank : {0, 1}) EXPECT_EQ(ranks.Join(rank), -SIGKILL);
  EXPECT_EQ(SharedFiles(), before);
}

TEST(SharedAreaTest, MemoryOutlivesItsGroup) {
  RunProcesses(2, [](const RankContext& context) {
    auto group = context.Connect("1.a");
    ASSERT_TRUE(group.ok()) << group.status();
    auto shared = (*group)->Allocate(4096 * sizeof(float));
    ASSERT_TRUE(shared.ok()) << shared.status();
    float* data = reinterpret_cast<float*>(shared->get());
    for (int i = 0; i < 4096; ++i) ASSERT_EQ(data[i], 0.0f);
    group->reset();
    data[4095] = 5;
    EXPECT_EQ(data[4095], 5);
    // In the next generation the memory is ordinary memory.
    auto next = context.Connect("2.b");
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_TRUE((*next)->AllReduce(data, 4096, DataType::kFloat32, ReduceOp::kSum)->Wait().ok());
    EXPECT_EQ(data[4095], 10);
  });
}

}  // namespace
}  // namespace mtrun::collectives

#include "launcher/workers/numa.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two sockets with two nodes each; a node has two cores of two threads; each core has its own cache. cpu c:
/// node c/4, core pairs (0,1) (2,3) ...
class NumaTest : public testing::Test {
 protected:
  void SetUp() override {
    Write("sys/devices/system/node/online", "0-3\n");
    for (int cpu = 0; cpu < 16; ++cpu) {
      const std::string folder = absl::StrCat("sys/devices/system/cpu/cpu", cpu);
      const std::string pair = absl::StrCat(cpu / 2 * 2, "-", cpu / 2 * 2 + 1, "\n");
      Write(folder + "/topology/physical_package_id", absl::StrCat(cpu / 8, "\n"));
      Write(folder + "/topology/thread_siblings_list", pair);
      Write(folder + "/cache/index0/type", "Instruction\n");
      Write(folder + "/cache/index0/level", "9\n");
      Write(folder + "/cache/index1/type", "Data\n");
      Write(folder + "/cache/index1/level", "1\n");
      Write(folder + "/cache/index1/shared_cpu_list", absl::StrCat(cpu, "\n"));
      Write(folder + "/cache/index2/type", "Unified\n");
      Write(folder + "/cache/index2/level", "3\n");
      Write(folder + "/cache/index2/shared_cpu_list", pair);
    }
    for (int node = 0; node < 4; ++node) {
      Write(absl::StrCat("sys/devices/system/node/node", node, "/cpulist"),
            absl::StrCat(node * 4, "-", node * 4 + 3, "\n"));
    }
    Write("sys/bus/pci/devices/0000:01:00.0/numa_node", "1\n");
    Write("sys/bus/pci/devices/0000:02:00.0/numa_node", "1\n");
    Write("sys/bus/pci/devices/0000:03:00.0/numa_node", "3\n");
    Write("sys/bus/pci/devices/0000:04:00.0/numa_node", "-1\n");
  }

  void Write(const std::string& path, const std::string& text) {
    const std::string whole = root_.path() + "/" + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    support::WriteText(whole, text);
  }

  std::vector<std::string> Bind(std::string_view mode, int workers, const std::vector<std::string>& gpus = {},
                                std::vector<int> allowed = ParseRanges("0-15")) {
    const auto topology = ReadTopology(root_.path(), allowed, gpus);
    EXPECT_TRUE(topology.ok()) << topology.status();
    const auto bindings = BindWorkers(*topology, mode, workers);
    if (!bindings.ok()) return {std::string(bindings.status().message())};
    std::vector<std::string> texts;
    for (const Binding& binding : *bindings) {
      texts.push_back(RangesText(binding.cpus));
      if (binding.memory_node) absl::StrAppend(&texts.back(), " @", *binding.memory_node);
    }
    return texts;
  }

  const support::TemporaryFolder root_;
  const std::vector<std::string> gpus_ = {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"};
};

TEST_F(NumaTest, WorkersAreBoundNearTheirGpu) {
  EXPECT_THAT(Bind("node", 3, gpus_), ElementsAre("4-7 @1", "4-7 @1", "12-15 @3"));
  EXPECT_THAT(Bind("socket", 3, gpus_), ElementsAre("0-7", "0-7", "8-15"));
  EXPECT_THAT(Bind("exclusive", 3, gpus_), ElementsAre("4-5 @1", "6-7 @1", "12-15 @3"));
  EXPECT_THAT(Bind("core-complex", 3, gpus_), ElementsAre("4-5 @1", "6-7 @1", "12-13 @3"));
  EXPECT_THAT(Bind("node", 1, {"0000:04:00.0"}), ElementsAre("0-3 @0"));
}

TEST_F(NumaTest, CpuJobsAreSpreadOverTheNodes) {
  EXPECT_THAT(Bind("node", 2), ElementsAre("0-3 @0", "8-11 @2"));
  EXPECT_THAT(Bind("node", 8), ElementsAre("0-3 @0", "0-3 @0", "4-7 @1", "4-7 @1", "8-11 @2", "8-11 @2",
                                           "12-15 @3", "12-15 @3"));
  EXPECT_THAT(Bind("exclusive", 5), ElementsAre("0-1 @0", "2-3 @0", "4-7 @1", "8-11 @2", "12-15 @3"));
}

TEST_F(NumaTest, OnlyAllowedProcessorsCount) {
  EXPECT_THAT(Bind("node", 1, gpus_, {5, 7, 12}), ElementsAre("5,7 @1"));
  EXPECT_THAT(Bind("node", 1, {"0000:03:00.0"}, {0, 1}), ElementsAre("0-1 @0"));
}

TEST_F(NumaTest, SharesThatAreTooSmallAreRefused) {
  EXPECT_THAT(Bind("exclusive", 9), ElementsAre(HasSubstr("3 workers share NUMA node 0, which has only 2")));
}

TEST_F(NumaTest, WorkersShareNoProcessorsUnderAQuota) {
  const auto mode = [&](std::optional<double> quota, std::string_view wanted, int workers,
                        const std::vector<std::string>& gpus) {
    const auto topology = ReadTopology(root_.path(), ParseRanges("0-15"), gpus);
    EXPECT_TRUE(topology.ok()) << topology.status();
    return topology.ok() ? ModeUnder(quota, *topology, wanted, workers) : "no topology";
  };
  for (const char* wanted : {"node", "socket", "exclusive", "core-complex"}) {
    EXPECT_EQ(mode(std::nullopt, wanted, 1, {}), wanted);
    EXPECT_EQ(mode(16, wanted, 1, {}), wanted) << "as much time as there is";
    EXPECT_EQ(mode(4, wanted, 3, {}), "") << "three workers would take the first of four nodes";
    const char* left = std::string_view(wanted) == "socket" ? "socket" : "node";
    EXPECT_EQ(mode(15.5, wanted, 4, {}), left);
    EXPECT_EQ(mode(4, wanted, 1, gpus_), left) << "a worker stays near its GPU";
  }
}

TEST_F(NumaTest, MachineWithoutNodesIsAnError) {
  const support::TemporaryFolder empty;
  EXPECT_THAT(std::string(ReadTopology(empty.path(), {0}, {}).status().message()),
              HasSubstr("no NUMA nodes"));
}

TEST(RangesTest, RoundTrip) {
  EXPECT_THAT(ParseRanges("0-2,7,4-5\n"), ElementsAre(0, 1, 2, 4, 5, 7));
  EXPECT_THAT(ParseRanges(""), testing::IsEmpty());
  EXPECT_EQ(RangesText({0, 1, 2, 4, 5, 7}), "0-2,4-5,7");
}

}  // namespace
}  // namespace mtrun::launcher

// Training on shared machines: few ports are open, and the gradients cannot be read.
#include <set>

#include "tests/e2e/training.h"
#include "tests/support/namespaces.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::Ge;

/// Returns the ports on which processes in the network namespace of `pid` listen.
std::vector<int> ListeningPorts(pid_t pid) {
  std::vector<int> ports;
  for (const char* family : {"tcp", "tcp6"}) {
    const std::string table = support::ReadText(absl::StrCat("/proc/", pid, "/net/", family));
    for (const absl::string_view line : absl::StrSplit(table, '\n', absl::SkipEmpty())) {
      // "0: 00000000:72D8 00000000:0000 0A ...": the state 0A is LISTEN.
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.at(3) == "0A")
        ports.push_back(std::stoi(words[1].substr(words[1].rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

class GuardedTrainingTest : public TrainingRuns {
 protected:
  void SetUp() override {
    TrainingRuns::SetUp();
    auto nodes = support::TwoNodes::Make();
    if (!nodes.ok()) GTEST_SKIP() << nodes.status().message();
    nodes_ = *std::move(nodes);
  }
  std::unique_ptr<Program> TrainOn(int node, int epochs) const {
    support::Overlay environment = Environment();
    environment["MTRUN_PACE"] = "0.02";
    environment["HOME"] = folder_.path();  // both nodes share it, and so the token
    const std::vector<std::string> args = {"--nnodes",         "2",
                                           "--nproc_per_node", "2",
                                           "--rdzv_endpoint",  nodes_->Address(0) + ":29400",
                                           "--port_range",     "31000-31019",
                                           "--node_rank",      absl::StrCat(node)};
    return std::make_unique<Program>(
        nodes_->On(node, Command(Words(args, Trainer("run", epochs, {"--encrypt_gradients"})))), environment);
  }

  std::unique_ptr<support::TwoNodes> nodes_;
};

TEST_F(GuardedTrainingTest, JobListensOnlyInItsRangeAndEncryptsItsTraffic) {
  constexpr int kEpochs = 8;
  const auto first = TrainOn(0, kEpochs), second = TrainOn(1, kEpochs);
  ASSERT_TRUE(first->WaitForLine("epoch 2/")) << first->Text() << second->Text();
  const std::vector<int> here = ListeningPorts(first->pid()), there = ListeningPorts(second->pid());
  const auto in_range = AllOf(Ge(31000), testing::Le(31019));
  EXPECT_THAT(here, Contains(29400));
  EXPECT_THAT(here, Each(AnyOf(29400, in_range)));
  EXPECT_THAT(there, Each(in_range));
  // The presence port, and the port of a service that can take over.
  EXPECT_THAT(there, testing::SizeIs(Ge(2)));
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  ExpectUndisturbed("run", kEpochs);
}

}  // namespace
}  // namespace mtrun::e2e

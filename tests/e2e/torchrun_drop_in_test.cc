// Properties that command lines rely on and torchrun's own tests do not check: which files count as Python
// programs, values that can be empty or unknown, defaults, the order of nodes on one host.
#include <filesystem>

#include "tests/e2e/either.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class DropIn : public EitherTest {
 protected:
  void SetUp() override {
    EitherTest::SetUp();
    if (!HavePython()) GTEST_SKIP() << "there is no python3";
  }

  /// Writes a program that only Python can run. The `-u` of both launchers shows in write_through.
  std::string PythonProgram(const std::string& name, bool executable) const {
    const std::string path = folder_.File(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    support::WriteText(
        path, "#!/nowhere/python3\nimport sys\nprint('ran', sys.argv[1:], sys.stdout.write_through)\n",
        executable);
    return path;
  }
};
MT_UNDER_EITHER(DropIn);

TEST_P(DropIn, ExecutablePythonScriptRunsUnderTheLaunchersPython) {
  const auto run = Start({"--standalone", PythonProgram("train", true), "--lr", "1"});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "ran"), ElementsAre("ran ['--lr', '1'] True")) << run->Text();
}

TEST_P(DropIn, FolderAndZipArchiveWithAMainRunUnderPython) {
  PythonProgram("app/__main__.py", false);
  const std::string folder = folder_.File("app");
  ASSERT_EQ(Program({"python3", "-m", "zipapp", folder, "-o", folder_.File("app.zip")}).Wait(), 0);
  for (const std::string& program : {folder, folder_.File("app.zip")}) {
    const auto run = Start({"--standalone", program, "x"});
    EXPECT_EQ(run->Wait(), 0) << run->Text();
    EXPECT_THAT(From(run->OutLines(), "ran"), ElementsAre("ran ['x'] True")) << run->Text();
  }
}

TEST_P(DropIn, LocalRankIsSubstitutedWithAndWithoutBraces) {
  const std::string script = Script("args.sh", "echo \"args $*\"\n");
  const auto run = Start({"--standalone", "--nproc_per_node=2", "--no_python", script, "--rank=$local_rank",
                          "${local_rank}", "$local_ranks"});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "args"),
              UnorderedElementsAre("args --rank=0 0 $local_ranks", "args --rank=1 1 $local_ranks"));
}

TEST_P(DropIn, EmptyRunIdIsNoneAndUnknownRendezvousKeyIsIgnored) {
  const std::string script = Script("id.sh", "echo id \"<$TORCHELASTIC_RUN_ID>\"\n");
  const auto run = Start({"--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0",
                          "--rdzv_id=", "--rdzv_conf=no_such_key=1", "--no_python", script});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  const auto said = From(run->OutLines(), "id ");
  ASSERT_THAT(said, SizeIs(1)) << run->Text();
  EXPECT_THAT(said[0], Not(HasSubstr("<>")));
  EXPECT_THAT(From(run->ErrLines(), "unknown key \"no_such_key\""), SizeIs(torchrun() ? 0 : 1));
}

/// torchrun's documented line for several jobs on a machine. Each worker waits for that of the other job.
TEST_P(DropIn, JobsAtPortZeroAreSeparate) {
  const auto start = [&](const std::string& own, const std::string& other, int code) {
    const std::string script =
        Script(own + ".sh",
               absl::StrCat("touch ", folder_.File(own), "\nwhile [ ! -e ", folder_.File(other),
                            " ]; do sleep 0.02; done\n", "echo ran $RANK of $WORLD_SIZE; exit ", code, "\n"));
    return Start(
        {"--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", "--nproc_per_node=1", "--no_python", script});
  };
  const auto first = start("first", "second", 3), second = start("second", "first", 0);
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_EQ(first->Wait(), Failed(3)) << first->Text();
  for (Program* job : {first.get(), second.get()})
    EXPECT_THAT(From(job->OutLines(), "ran "), ElementsAre("ran 0 of 1")) << job->Text();
}

TEST_P(DropIn, NodesOfOneHostAreOrderedByTheirLocalAddressThenByArrival) {
  const std::string script = Script("node.sh", "echo node $GROUP_RANK\n");
  const auto node = [&](const std::string& address) {
    return Agent("4", {"--local_addr", address, "--no_python", script});
  };
  std::vector<std::unique_ptr<Program>> nodes;
  nodes.push_back(node("127.0.0.3"));
  if (!torchrun()) {  // torchrun orders by process id if addresses are equal
    ASSERT_TRUE(nodes[0]->WaitForLine("waiting for 3 more")) << nodes[0]->Text();
  }
  for (const char* address : {"127.0.0.3", "127.0.0.2", "127.0.0.1"}) nodes.push_back(node(address));
  const std::vector<std::string> expected = {"node 2", "node 3", "node 1", "node 0"};
  for (size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(nodes[i]->Wait(), 0) << nodes[i]->Text();
    EXPECT_THAT(From(nodes[i]->OutLines(), "node "), ElementsAre(expected[i])) << nodes[i]->Text();
  }
}

TEST_P(DropIn, OverlongTemporaryFolderNameIsHandled) {
  // Longer than a socket's name can be (108 bytes).
  const std::string folder = folder_.File(std::string(120, 't'));
  std::filesystem::create_directory(folder);
  const auto run =
      Start({"--standalone", "--nproc_per_node=2", "--no_python", Touch()},
            {{"TMPDIR", folder}, {"XDG_STATE_HOME", folder}, {"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(Ran(), UnorderedElementsAre("ran_0", "ran_1"));
}

/// In a separate network: all test runs use the same default port.
class Defaults : public EitherTest {
 protected:
  void SetUp() override {
    EitherTest::SetUp();
    if (IsSkipped()) return;
    auto network = support::Network::Make(1);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
  }
  void TearDown() override {
    network_.reset();
    EitherTest::TearDown();
  }
  std::vector<std::string> Command(const std::vector<std::string>& args) const override {
    return network_->On(0, EitherTest::Command(args));
  }

  std::unique_ptr<support::Network> network_;
};
MT_UNDER_EITHER(Defaults);

TEST_P(Defaults, TwoNodesWithoutAnEndpointFormAJobOnThisMachine) {
  const std::string script = Script("rank.sh", "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR\n");
  const auto node = [&](const char* rank) {
    return Start({"--nnodes", "2", "--node_rank", rank, "--no_python", script});
  };
  const auto first = node("0"), second = node("1");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(From(first->OutLines(), "rank"), ElementsAre("rank 0 of 2 at 127.0.0.1"));
  EXPECT_THAT(From(second->OutLines(), "rank"), ElementsAre("rank 1 of 2 at 127.0.0.1"));
}

}  // namespace
}  // namespace mtrun::e2e

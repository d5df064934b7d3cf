// What torchrun's own tests check about starting workers, ranks and environment, against mtrun. The numbers
// are those of docs/torchrun.md.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class TorchrunLaunch : public LauncherTest {
 protected:
  /// Says "rank R of W ..." and makes a folder of its name, which a second start could not.
  std::string Touch() const {
    return Script("touch.sh", absl::StrCat("mkdir ", folder_.path(),
                                           "/ran_$RANK || exit 1\necho rank $RANK of "
                                           "$WORLD_SIZE port $MASTER_PORT\n"));
  }
  std::vector<std::string> Ran() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("ran_")) names.push_back(name);
    }
    return names;
  }
};

TEST_F(TorchrunLaunch, Behaviour01EachOfFourWorkersRunsOnce) {
  Program mtrun(
      Command({"--nnodes=1", "--nproc-per-node=4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
               "--rdzv-id=job", "--monitor-interval=1", "--start-method=spawn", "--no-python", Touch()}),
      Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(Ran(), UnorderedElementsAre("ran_0", "ran_1", "ran_2", "ran_3"));
  EXPECT_THAT(From(mtrun.ErrLines(), "without effect"), SizeIs(1));  // one warning for both
}

TEST_F(TorchrunLaunch, Behaviour02StaticWithMasterAddressAndPort) {
  const int port = support::FreePort();
  Program mtrun(Command({"--nnodes=1", "--nproc_per_node=4", "--node_rank=0", "--master_addr=localhost",
                         absl::StrCat("--master_port=", port), "--no_python", Touch()}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(Ran(), UnorderedElementsAre("ran_0", "ran_1", "ran_2", "ran_3"));
  // 22. The port that was asked for is the workers' MASTER_PORT.
  EXPECT_THAT(From(mtrun.OutLines(), "port "), Each(absl::StrCat("port ", port)));
}

TEST_F(TorchrunLaunch, Behaviour02StaticOverTwoNodesKeepsNodeRanks) {
  const std::string script = Script("rank.sh", "echo rank $RANK node $GROUP_RANK\n");
  const auto start = [&](const std::string& node_rank) {
    return std::make_unique<Program>(
        Command({"--nnodes=2", "--node_rank", node_rank, "--master_addr=127.0.0.1",
                 "--master_port=" + endpoint_.substr(endpoint_.find(':') + 1), "--no_python", script}),
        Environment());
  };
  const auto second = start("1"), first = start("0");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(From(first->OutLines(), "rank"), ElementsAre("rank 0 node 0"));
  EXPECT_THAT(From(second->OutLines(), "rank"), ElementsAre("rank 1 node 1"));
}

TEST_F(TorchrunLaunch, Behaviour03NoPythonRunsAShellScriptPerRank) {
  Program mtrun(Command({"--standalone", "--nproc_per_node=2", "--no_python", Touch()}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(Ran(), UnorderedElementsAre("ran_0", "ran_1"));
}

TEST_F(TorchrunLaunch, Behaviour04NoPythonWithModuleStartsNothing) {
  Program mtrun(Command({"--standalone", "--no_python", "--module", Touch()}), Environment());
  EXPECT_EQ(mtrun.Wait(), 2);
  EXPECT_THAT(Ran(), IsEmpty());
}

TEST_F(TorchrunLaunch, Behaviour05OneWorkerByDefault) {
  Program mtrun(Command({"--no_python", Touch()}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(Ran(), ElementsAre("ran_0"));
}

TEST_F(TorchrunLaunch, Behaviour06AllOptionsFromTheEnvironment) {
  support::Overlay overlay = Environment();
  for (const auto& [name, value] : std::map<std::string, std::string>{{"PET_NNODES", "1"},
                                                                      {"PET_NPROC_PER_NODE", "2"},
                                                                      {"PET_NODE_RANK", "0"},
                                                                      {"PET_MASTER_ADDR", "localhost"},
                                                                      {"PET_RDZV_ID", "from_env"},
                                                                      {"PET_ROLE", "env"},
                                                                      {"PET_NO_PYTHON", "1"},
                                                                      {"PET_MODULE", "0"},
                                                                      {"PET_MAX_RESTARTS", "2"},
                                                                      {"RANK", "7"},
                                                                      {"WORLD_SIZE", "99"}})
    overlay[name] = value;
  Program mtrun(
      Command({Script("say.sh", "echo $RANK/$WORLD_SIZE $TORCHELASTIC_RUN_ID $TORCHELASTIC_MAX_RESTARTS\n")}),
      overlay);
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), UnorderedElementsAre("[env0]:0/2 from_env 2", "[env1]:1/2 from_env 2"));
}

TEST_F(TorchrunLaunch, Behaviour07AutoWithoutAnAcceleratorCountsProcessors) {
  // Devices made invisible: what a machine with GPUs does is MachineTest's and OptionsTest's.
  support::Overlay overlay = Environment();
  overlay["CUDA_VISIBLE_DEVICES"] = "";
  Program count({"nproc"});
  ASSERT_EQ(count.Wait(), 0);
  Program mtrun(Command({"--standalone", "--nproc_per_node=auto", "--no_python", Touch()}), overlay);
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(Ran(), SizeIs(static_cast<size_t>(std::stoi(count.OutLines().at(0)))));
}

TEST_F(TorchrunLaunch, Behaviour08UnknownCountsAreErrors) {
  Program mtrun(Command({"--standalone", "--nproc_per_node=unknown", "--no_python", Touch()}), Environment());
  EXPECT_EQ(mtrun.Wait(), 2);
  EXPECT_THAT(mtrun.Text(), HasSubstr("--nproc_per_node: \"unknown\" is not allowed"));
  EXPECT_THAT(Ran(), IsEmpty());
}

TEST_F(TorchrunLaunch, Behaviour09OneOfTwoNodesRunsAfterTheLastCall) {
  const auto mtrun =
      Agent("1:2", {"--nproc_per_node=4", "--rdzv_conf", "last_call_timeout=0.2", "--no_python", Touch()});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(From(mtrun->OutLines(), "rank "), SizeIs(4));
  EXPECT_THAT(From(mtrun->OutLines(), "rank 0 of 4"), SizeIs(1));
}

TEST_F(TorchrunLaunch, Behaviour10TwoAgentsOfAnElasticJob) {
  const std::vector<std::string> flags = {"--nproc_per_node=4", "--rdzv_conf", "last_call_timeout=60",
                                          "--no_python", Touch()};
  const auto first = Agent("1:2", flags), second = Agent("1:2", flags);
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(Ran(), SizeIs(8));
  EXPECT_THAT(From(first->OutLines(), " of 8"), SizeIs(4));
}

TEST_F(TorchrunLaunch, Behaviour12StandaloneNeedsNoEndpointAndIgnoresOne) {
  Program mtrun(Command({"--standalone", "--nproc_per_node=2", "--rdzv_endpoint=nowhere.invalid:1",
                         "--no_python", Touch()}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(Ran(), SizeIs(2));
}

TEST_F(TorchrunLaunch, Behaviour13RunPathRunsAPythonScriptOfAnyName) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  support::WriteText(folder_.File("script"), "import sys\nprint('python', sys.argv[1])\nsys.exit(0)\n", true);
  Program mtrun(Command({"--standalone", "--run-path", folder_.File("script"), "arg"}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), ElementsAre("[default0]:python arg"));
}

TEST_F(TorchrunLaunch, Behaviour15TheRunIdIsSetInsideOnly) {
  support::Overlay overlay = Environment();
  overlay["TORCHELASTIC_RUN_ID"] = std::nullopt;
  const std::string script = Script("say.sh", "echo ${TORCHELASTIC_RUN_ID+inside}\n");
  Program outside({script}, overlay);
  EXPECT_EQ(outside.Wait(), 0);
  EXPECT_THAT(outside.OutLines(), ElementsAre(""));
  Program mtrun(Command({"--standalone", script}), overlay);
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), ElementsAre("[default0]:inside"));
}

TEST_F(TorchrunLaunch, Behaviour16UnknownLogsSpecsAreErrors) {
  Program mtrun(Command({"--standalone", "--logs-specs=mine", "--no_python", Touch()}), Environment());
  EXPECT_EQ(mtrun.Wait(), 2);
  EXPECT_THAT(mtrun.Text(), HasSubstr("\"mine\""));
  EXPECT_THAT(Ran(), IsEmpty());
}

TEST_F(TorchrunLaunch, Behaviour18AllRanksOfTwoAgentsMeetAtTheMaster) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::vector<std::string> flags = {"--nproc_per_node=4", support::TestFile("support/toys/meet.py")};
  const auto first = Agent("2", flags), second = Agent("2", flags);
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(first->Text() + second->Text(), HasSubstr("MET [0, 1, 2, 3, 4, 5, 6, 7] at 127.0.0.1"));
}

TEST_F(TorchrunLaunch, Behaviour19NodesMayHaveDifferentNumbersOfWorkers) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  std::vector<std::unique_ptr<Program>> agents;
  for (const char* workers : {"1", "2", "3"})
    agents.push_back(Agent("3", {"--nproc_per_node", workers, support::TestFile("support/toys/meet.py")}));
  std::string all;
  for (const auto& agent : agents) {
    EXPECT_EQ(agent->Wait(), 0) << agent->Text();
    all += agent->Text();
  }
  EXPECT_THAT(all, HasSubstr("MET [0, 1, 2, 3, 4, 5]"));
}

TEST_F(TorchrunLaunch, Behaviour20RolesOfUnequalSizes) {
  const std::string script = Script("role.sh",
                                    "echo role $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE rank $RANK/$WORLD_SIZE "
                                    "node $GROUP_RANK/$GROUP_WORLD_SIZE\n");
  std::vector<std::unique_ptr<Program>> agents;
  const std::vector<std::pair<const char*, const char*>> nodes = {
      {"master", "1"}, {"trainer", "2"}, {"trainer", "3"}, {"ps", "2"}};
  for (size_t i = 0; i < nodes.size(); ++i) {
    agents.push_back(Agent("4", {"--role", nodes[i].first, "--nproc_per_node", nodes[i].second, "--node_rank",
                                 std::to_string(i), script}));
  }
  std::vector<std::string> said;
  for (const auto& agent : agents) {
    EXPECT_EQ(agent->Wait(), 0) << agent->Text();
    for (const std::string& line : From(agent->OutLines(), "role ")) said.push_back(line);
  }
  EXPECT_THAT(said,
              UnorderedElementsAre("role master 0/1 rank 0/8 node 0/4", "role trainer 0/5 rank 1/8 node 1/4",
                                   "role trainer 1/5 rank 2/8 node 1/4", "role trainer 2/5 rank 3/8 node 2/4",
                                   "role trainer 3/5 rank 4/8 node 2/4", "role trainer 4/5 rank 5/8 node 2/4",
                                   "role ps 0/2 rank 6/8 node 3/4", "role ps 1/2 rank 7/8 node 3/4"));
}

TEST_F(TorchrunLaunch, Behaviour21NcclErrorHandlingIsTheParentsOrOne) {
  const std::string script = Script("say.sh", "echo nccl $TORCH_NCCL_ASYNC_ERROR_HANDLING\n");
  support::Overlay overlay = Environment();
  overlay["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = std::nullopt;
  Program plain(Command({"--standalone", script}), overlay);
  EXPECT_EQ(plain.Wait(), 0);
  EXPECT_THAT(plain.Text(), HasSubstr("nccl 1"));
  overlay["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0";
  Program set(Command({"--standalone", script}), overlay);
  EXPECT_EQ(set.Wait(), 0);
  EXPECT_THAT(set.Text(), HasSubstr("nccl 0"));
}

TEST_F(TorchrunLaunch, Behaviour23TheLocalAddressIsTheMasters) {
  const std::string script = Script("say.sh", "echo master $MASTER_ADDR:$MASTER_PORT\n");
  Program mtrun(Command({"--standalone", "--local-addr", "127.0.0.9", script}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  const auto said = From(mtrun.OutLines(), "master ");
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(said[0], HasSubstr("master 127.0.0.9:"));
  EXPECT_THAT(said[0], Not(HasSubstr(":0")));
}

TEST_F(TorchrunLaunch, ALinkNamedTorchrunIsMtrun) {
  std::filesystem::create_symlink(Mtrun(), folder_.File("torchrun"));
  // As torchx calls it: underscores, an empty role, values as words of their own.
  Program mtrun(
      {folder_.File("torchrun"), "--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_id",
       "job", "--nnodes", "1", "--nproc_per_node", "2", "--tee", "3", "--role", "", "--no_python", Touch()},
      Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "[1]:rank 1 of 2"), SizeIs(1));
}

TEST_F(TorchrunLaunch, VirtualLocalRanksSeeOneDeviceEach) {
  support::Overlay overlay = Environment();
  overlay["CUDA_VISIBLE_DEVICES"] = "4, 6";
  Program mtrun(
      Command({"--standalone", "--virtual-local-rank", "--nproc_per_node=2",
               Script("say.sh", "echo rank $RANK local $LOCAL_RANK device $CUDA_VISIBLE_DEVICES\n")}),
      overlay);
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(From(mtrun.OutLines(), "rank"),
              UnorderedElementsAre("rank 0 local 0 device 4", "rank 1 local 0 device 6"));
}

TEST_F(TorchrunLaunch, EtcdServersAreToldApart) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::string etcd =
      "import http.server\n"
      "class H(http.server.BaseHTTPRequestHandler):\n"
      "  def do_GET(self):\n"
      "    self.send_response(200); self.end_headers(); self.wfile.write(b'{\"etcdserver\":\"3.5\"}')\n"
      "s = http.server.HTTPServer(('127.0.0.1', 0), H); print('port', s.server_port, flush=True)\n"
      "s.serve_forever()\n";
  Program server({"python3", "-c", etcd}, Environment());
  const auto line = server.WaitForLine("port ");
  ASSERT_TRUE(line) << server.Text();
  Program refused(Command({"--nnodes=1:2", "--rdzv_backend=etcd",
                           "--rdzv_endpoint=127.0.0.1:" + line->substr(5), "true"}),
                  Environment());
  EXPECT_EQ(refused.Wait(), 1);
  EXPECT_THAT(refused.Text(), AllOf(HasSubstr("an etcd server answers"), HasSubstr("--rdzv_backend c10d")));
  // An endpoint that is one of the nodes is where mtrun's own service runs.
  Program runs(Command({"--nnodes=1:2", "--rdzv_backend=etcd", "--rdzv_conf=last_call_timeout=0.1",
                        "--rdzv_endpoint=" + endpoint_, "true"}),
               Environment());
  EXPECT_EQ(runs.Wait(), 0) << runs.Text();
}

TEST_F(TorchrunLaunch, EverythingBehindTheProgramIsTheProgramsOwn) {
  Program mtrun(Command({"--standalone", Script("args.sh", "printf '<%s>' \"$@\"\n"), "--nnodes", "7",
                         "--help", "${local_rank}", "$$", "a b", ""}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), ElementsAre("[default0]:<--nnodes><7><--help><0><$$><a b><>"));
}

}  // namespace
}  // namespace mtrun::e2e

// Checks of torchrun's own tests on starts, ranks and environment, numbered as in docs/torchrun_tests.md.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "nlohmann/json.hpp"
#include "tests/e2e/either.h"

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

// ---- shared with torchrun ----

class Launching : public EitherTest {};
MT_UNDER_EITHER(Launching);

TEST_P(Launching, Behaviour01EachOfFourWorkersRunsOnce) {
  const auto run =
      Start({"--nnodes=1", "--nproc-per-node=4", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0",
             "--rdzv-id=job", "--monitor-interval=1", "--start-method=spawn", "--no-python", Touch()});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(Ran(), UnorderedElementsAre("ran_0", "ran_1", "ran_2", "ran_3"));
  EXPECT_THAT(From(run->ErrLines(), "without effect"), SizeIs(torchrun() ? 0 : 1));  // one for both flags
}

TEST_P(Launching, Behaviour02And22StaticWithMasterAddressAndPort) {
  const int port = support::FreePort();
  const auto run = Start({"--nnodes=1", "--nproc_per_node=4", "--node_rank=0", "--master_addr=localhost",
                          absl::StrCat("--master_port=", port), "--no_python", Touch()});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(Ran(), UnorderedElementsAre("ran_0", "ran_1", "ran_2", "ran_3"));
  EXPECT_THAT(From(run->OutLines(), "port "), Each(absl::StrCat("port ", port)));
}

TEST_P(Launching, Behaviour02And22StaticOverTwoNodesKeepsNodeRanksAndThePort) {
  const std::string script = Script("rank.sh", "echo rank $RANK node $GROUP_RANK port $MASTER_PORT\n");
  const std::string port = endpoint_.substr(endpoint_.find(':') + 1);
  const auto start = [&](const std::string& node_rank) {
    return Start({"--nnodes=2", "--node_rank", node_rank, "--master_addr=127.0.0.1", "--master_port=" + port,
                  "--no_python", script});
  };
  const auto second = start("1"), first = start("0");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(From(first->OutLines(), "rank"), ElementsAre("rank 0 node 0 port " + port));
  EXPECT_THAT(From(second->OutLines(), "rank"), ElementsAre("rank 1 node 1 port " + port));
}

TEST_P(Launching, Behaviour03And12And15StandaloneRunsAShellScriptPerRank) {
  // 12: no endpoint is needed, and a given one is ignored. 15: the run id is set inside only.
  support::Overlay overlay = {{"TORCHELASTIC_RUN_ID", std::nullopt}};
  const std::string script = Script("say.sh", "echo rank $RANK ${TORCHELASTIC_RUN_ID+inside}\n");
  const auto run = Start(
      {"--standalone", "--nproc_per_node=2", "--rdzv_endpoint=nowhere.invalid:1", "--no_python", script},
      overlay);
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "rank"), UnorderedElementsAre("rank 0 inside", "rank 1 inside"));
  Program outside({script}, overlay);
  EXPECT_EQ(outside.Wait(), 0);
  EXPECT_THAT(outside.OutLines(), ElementsAre("rank"));
}

TEST_P(Launching, Behaviour04NoPythonWithModuleStartsNothing) {
  const auto run = Start({"--standalone", "--no_python", "--module", Touch()});
  EXPECT_EQ(run->Wait(), Refused()) << run->Text();
  EXPECT_THAT(Ran(), IsEmpty());
}

TEST_P(Launching, Behaviour05OneWorkerByDefault) {
  const auto run = Start({"--no_python", Touch()});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(Ran(), ElementsAre("ran_0"));
}

TEST_P(Launching, Behaviour06AllOptionsFromTheEnvironment) {
  support::Overlay overlay;
  for (const auto& [name, value] : std::map<std::string, std::string>{{"PET_NNODES", "1"},
                                                                      {"PET_NPROC_PER_NODE", "2"},
                                                                      {"PET_NODE_RANK", "0"},
                                                                      {"PET_MASTER_ADDR", "localhost"},
                                                                      {"PET_RDZV_BACKEND", "c10d"},
                                                                      {"PET_RDZV_ENDPOINT", "localhost:0"},
                                                                      {"PET_RDZV_ID", "from_env"},
                                                                      {"PET_ROLE", "env"},
                                                                      {"PET_NO_PYTHON", "1"},
                                                                      {"PET_MODULE", "0"},
                                                                      {"PET_MAX_RESTARTS", "2"},
                                                                      {"RANK", "7"},
                                                                      {"WORLD_SIZE", "99"}})
    overlay[name] = value;
  const auto run = Start({Script("say.sh",
                                 "echo said $RANK/$WORLD_SIZE $TORCHELASTIC_RUN_ID "
                                 "$TORCHELASTIC_MAX_RESTARTS $ROLE_NAME\n")},
                         overlay);
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "said"),
              UnorderedElementsAre("said 0/2 from_env 2 env", "said 1/2 from_env 2 env"));
}

TEST_P(Launching, Behaviour07AutoWithoutAnAcceleratorCountsProcessors) {
  // Devices are hidden: MachineTest and OptionsTest cover machines with GPUs.
  Program count({"nproc"});
  ASSERT_EQ(count.Wait(), 0);
  const auto run = Start({"--standalone", "--nproc_per_node=auto", "--no_python", Touch()},
                         {{"CUDA_VISIBLE_DEVICES", ""}});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(Ran(), SizeIs(static_cast<size_t>(std::stoi(count.OutLines().at(0)))));
}

TEST_P(Launching, Behaviour08And11And16And47WrongValuesStartNothing) {
  const std::vector<std::string> meet = {"--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"};
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--standalone", "--nproc_per_node=unknown"},    // 8
                                             {"--standalone", "--nnodes=2:20:30"},            // 11
                                             {"--standalone", "--logs-specs=mine"},           // 16
                                             Words({"--nnodes=0:1"}, meet),                   // 47
                                             Words({"--nnodes=2:1"}, meet),                   // 47
                                             Words({"--rdzv_conf=join_timeout=0"}, meet)}) {  // 47
    const auto run = Start(Words(wrong, {"--no_python", Touch()}));
    EXPECT_EQ(run->Wait(), Refused()) << wrong[0] << " " << wrong[1] << "\n" << run->Text();
    EXPECT_THAT(Ran(), IsEmpty()) << wrong[1];
    if (torchrun()) continue;
    // mtrun names the flag and the value.
    const std::string& last = wrong[1].starts_with("--rdzv_b") ? wrong[0] : wrong[1];
    EXPECT_THAT(run->Text(), HasSubstr(last.substr(last.rfind('=') + 1))) << last;
    EXPECT_THAT(run->Text(), HasSubstr("is not allowed")) << last;
  }
}

TEST_P(Launching, Behaviour09And52OneOfTwoNodesRunsAfterTheLastCall) {
  const auto run =
      Agent("1:2", {"--nproc_per_node=4", "--rdzv_conf",
                    torchrun() ? "last_call_timeout=1" : "last_call_timeout=0.2", "--no_python", Touch()});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "rank "), SizeIs(4));
  EXPECT_THAT(From(run->OutLines(), "rank 0 of 4"), SizeIs(1));
}

TEST_P(Launching, Behaviour10And48And52TwoAgentsAreCompleteBeforeTheLastCall) {
  const std::vector<std::string> flags = {"--nproc_per_node=4", "--rdzv_conf", "last_call_timeout=600",
                                          "--no_python", Touch()};
  const auto first = Agent("1:2", flags), second = Agent("1:2", flags);
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(Ran(), SizeIs(8));  // distinct ranks
  EXPECT_THAT(From(first->OutLines(), " of 8"), SizeIs(4));
}

TEST_P(Launching, Behaviour13RunPathRunsAPythonScriptOfAnyName) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  support::WriteText(folder_.File("script"), "import sys\nprint('python', sys.argv[1])\nsys.exit(0)\n", true);
  const auto run = Start({"--standalone", "--run-path", folder_.File("script"), "arg"});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "python"), ElementsAre("python arg"));
}

TEST_P(Launching, Behaviour14And17WorkersGetTheEnvironmentAndArguments) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const auto run = Start({"--standalone", "--nproc_per_node=2", "--max_restarts=3", "--role=r",
                          support::TestFile("support/toys/environment.py"), "--local-rank=${local_rank}"},
                         {{"SENTINEL", "from the parent"}, {"WORLD_SIZE", "77"}, {"RANK", "5"}});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  const auto lines = From(run->OutLines(), "ENV ");
  ASSERT_THAT(lines, SizeIs(2)) << run->Text();
  std::set<std::string> ranks;
  for (const std::string& line : lines) {
    const nlohmann::json said = nlohmann::json::parse(line.substr(4)), env = said["env"];
    const std::string rank = env["RANK"];
    ranks.insert(rank);
    for (const auto& [name, value] : std::map<std::string, std::string>{
             {"LOCAL_RANK", rank},
             {"ROLE_RANK", rank},
             {"GROUP_RANK", "0"},
             {"ROLE_NAME", "r"},
             {"LOCAL_WORLD_SIZE", "2"},
             {"WORLD_SIZE", "2"},
             {"ROLE_WORLD_SIZE", "2"},
             {"GROUP_WORLD_SIZE", "1"},
             {"TORCHELASTIC_RESTART_COUNT", "0"},
             {"TORCHELASTIC_MAX_RESTARTS", "3"},
             {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
             {"OMP_NUM_THREADS", "1"},
             {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
             {"SENTINEL", "from the parent"}})
      EXPECT_EQ(env.value(name, "(not set)"), value) << name << " of rank " << rank;
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE"})
      EXPECT_NE(env.value(name, ""), "") << name;
    EXPECT_EQ(said["argv"], nlohmann::json({"--local-rank=" + rank}));
  }
  EXPECT_THAT(ranks, ElementsAre("0", "1"));
}

/// meet.py's rank 0 listens where torch's store would: in its own process.
const support::Overlay kOwnStore = {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}};

TEST_P(Launching, Behaviour18And19NodesOfDifferentSizesConnectToTheMaster) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  std::vector<std::unique_ptr<Program>> agents;
  for (const char* workers : {"1", "2", "3"})
    agents.push_back(Agent(
        "3",
        {"--nproc_per_node", workers, "--local_addr=127.0.0.1", support::TestFile("support/toys/meet.py")},
        kOwnStore));
  std::string all;
  for (const auto& agent : agents) {
    EXPECT_EQ(agent->Wait(), 0) << agent->Text();
    all += agent->Text();
  }
  EXPECT_THAT(all, HasSubstr("MET [0, 1, 2, 3, 4, 5] at 127.0.0.1"));
}

TEST_P(Launching, Behaviour20RolesOfUnequalSizes) {
  const std::string script =
      Script("role.sh", "echo role $ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE $RANK $WORLD_SIZE $GROUP_RANK\n");
  std::vector<std::unique_ptr<Program>> agents;
  const std::vector<std::pair<std::string, int>> nodes = {
      {"master", 1}, {"trainer", 2}, {"trainer", 3}, {"ps", 2}};
  for (const auto& [role, workers] : nodes)
    agents.push_back(
        Agent("4", {"--role", role, "--nproc_per_node", std::to_string(workers), "--no_python", script}));
  // Node numbers differ; ranks are always contiguous within roles and nodes.
  std::set<int> ranks;
  std::map<std::string, std::set<int>> role_ranks;
  for (size_t i = 0; i < agents.size(); ++i) {
    EXPECT_EQ(agents[i]->Wait(), 0) << agents[i]->Text();
    std::set<int> here;
    for (const std::string& line : From(agents[i]->OutLines(), "role ")) {
      std::istringstream words(line);
      std::string word, role;
      int role_rank = 0, role_world = 0, rank = 0, world = 0, node = 0;
      words >> word >> role >> role_rank >> role_world >> rank >> world >> node;
      EXPECT_EQ(role, nodes[i].first);
      EXPECT_EQ(role_world, role == "trainer" ? 5 : nodes[i].second);
      EXPECT_EQ(world, 8);
      EXPECT_TRUE(role_ranks[role].insert(role_rank).second) << line;
      here.insert(rank);
    }
    EXPECT_THAT(here, SizeIs(static_cast<size_t>(nodes[i].second)));
    EXPECT_EQ(*here.rbegin() - *here.begin() + 1, nodes[i].second);
    ranks.insert(here.begin(), here.end());
  }
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(role_ranks["trainer"], ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(role_ranks["ps"], ElementsAre(0, 1));
}

TEST_P(Launching, Behaviour21And23NcclErrorHandlingIsInheritedAndLocalAddressIsTheMasters) {
  const std::string script =
      Script("say.sh", "echo nccl $TORCH_NCCL_ASYNC_ERROR_HANDLING at $MASTER_ADDR:$MASTER_PORT\n");
  const auto run = Start({"--standalone", "--local-addr", "127.0.0.9", "--no_python", script},
                         {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}});  // 1 if unset: 14
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  const auto said = From(run->OutLines(), "nccl ");
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(said[0], AllOf(HasSubstr("nccl 0 at 127.0.0.9:"), Not(HasSubstr(":0"))));
}

TEST_P(Launching, Behaviour53SingleNodeGivesUpAfterTheJoinTimeout) {
  const auto run = Agent("2", {"--rdzv_conf", "join_timeout=1", "--no_python", Touch()});
  EXPECT_EQ(run->Wait(), 1) << run->Text();
  EXPECT_THAT(run->Text(), HasSubstr(torchrun() ? "RendezvousTimeoutError" : "join_timeout"));
  EXPECT_THAT(Ran(), IsEmpty());
}

// ---- mtrun's own ----

class TorchrunLaunch : public LauncherTest {};

TEST_F(TorchrunLaunch, Behaviour18AllRanksOfTwoAgentsConnectToTheMaster) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::vector<std::string> flags = {"--store=rank0", "--nproc_per_node=4",
                                          support::TestFile("support/toys/meet.py")};
  const auto first = Agent("2", flags), second = Agent("2", flags);
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(first->Text() + second->Text(), HasSubstr("MET [0, 1, 2, 3, 4, 5, 6, 7] at 127.0.0.1"));
}

TEST_F(TorchrunLaunch, Behaviour20RolesFollowNodeRanks) {
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

TEST_F(TorchrunLaunch, NcclErrorHandlingIsInheritedOrOne) {
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

TEST_F(TorchrunLaunch, LinkNamedTorchrunRunsMtrun) {
  std::filesystem::create_symlink(Mtrun(), folder_.File("torchrun"));
  // Like torchx: underscores, an empty role, values as separate words.
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

TEST_F(TorchrunLaunch, EtcdServersAreDistinguished) {
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
  // If the endpoint is one of the nodes, mtrun's own service runs there.
  Program runs(Command({"--nnodes=1:2", "--rdzv_backend=etcd", "--rdzv_conf=last_call_timeout=0.1",
                        "--rdzv_endpoint=" + endpoint_, "true"}),
               Environment());
  EXPECT_EQ(runs.Wait(), 0) << runs.Text();
}

TEST_F(TorchrunLaunch, ArgumentsAfterTheProgramAreTheProgramsOwn) {
  Program mtrun(Command({"--standalone", Script("args.sh", "printf '<%s>' \"$@\"\n"), "--nnodes", "7",
                         "--help", "${local_rank}", "$$", "a b", ""}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), ElementsAre("<--nnodes><7><--help><0><$$><a b><>"));
}

}  // namespace
}  // namespace mtrun::e2e

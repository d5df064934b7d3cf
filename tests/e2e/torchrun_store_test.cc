// The store that the agent serves on MASTER_PORT, like torchrun's; and programs that serve it themselves.
#include "tests/e2e/either.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::string Toy() { return support::TestFile("support/toys/store_client.py"); }

// ---- shared with torchrun ----

class AgentStore : public EitherTest {
 protected:
  void SetUp() override {
    EitherTest::SetUp();
    if (!HavePython()) GTEST_SKIP() << "there is no python3";
  }
};
MT_UNDER_EITHER(AgentStore);

TEST_P(AgentStore, OutlivesTheWorkerOfRankZero) {
  const auto run = Start({"--standalone", "--nproc_per_node=3", Toy(), "late"});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "LATE yes"), SizeIs(2)) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "AGENT STORE True"), SizeIs(3)) << run->Text();
}

TEST_P(AgentStore, ServesTheWorkersOfAllNodes) {
  const std::vector<std::string> flags = {"--nproc_per_node=2", "--local_addr=127.0.0.1", Toy(), "late"};
  const auto first = Agent("2", flags), second = Agent("2", flags);
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(From(first->OutLines(), "LATE yes").size() + From(second->OutLines(), "LATE yes").size(), 3u);
}

TEST_P(AgentStore, IsAtTheMasterPortOfAStaticJob) {
  const std::string port = absl::StrCat(support::FreePort());
  const auto run = Start({"--nproc_per_node=2", "--master_addr=127.0.0.1", "--master_port", port, Toy(),
                          "endpoint", "127.0.0.1:" + port});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "LATE yes"), SizeIs(1)) << run->Text();
}

TEST_P(AgentStore, IsReachableAtTheEndpointOfAStaticJob) {
  const std::string port = absl::StrCat(support::FreePort());
  const auto node = [&](const char* rank) {
    return Start({"--nnodes=2", "--nproc_per_node=2", "--rdzv_backend=static", "--node_rank", rank,
                  "--master_addr=127.0.0.1", "--master_port", port, Toy(), "endpoint", "127.0.0.1:" + port});
  };
  const auto first = node("0");  // it hosts the rendezvous, like the node of --master_addr
  if (!torchrun()) {
    ASSERT_TRUE(first->WaitForLine("hosting the rendezvous")) << first->Text();
  }
  const auto second = node("1");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_THAT(From(first->OutLines(), "LATE yes").size() + From(second->OutLines(), "LATE yes").size(), 3u);
}

/// Like init_process_group: a client for every rank, a prefix for each attempt.
constexpr char kTorchLate[] =
    "import os, time, torch, torch.distributed as dist\n"
    "dist.init_process_group('gloo', init_method=os.environ.get('METHOD', 'env://'),\n"
    "  rank=int(os.environ['RANK']), world_size=int(os.environ['WORLD_SIZE']))\n"
    "total = torch.tensor([dist.get_rank() + 1.0]); dist.all_reduce(total)\n"
    "print(f'TOTAL {total.item()}', flush=True)\n"
    "if dist.get_rank() == 0: os._exit(0)\n"
    "time.sleep(2)\n"
    "store = dist.distributed_c10d._get_default_store()\n"
    "store.set('late', 'yes'); print(f\"LATE {store.get('late').decode()}\", flush=True)\n"
    "client = dist.TCPStore(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']), is_master=False)\n"
    "client.add('n', 1); print(f\"CLIENT {client.check(['n'])}\", flush=True)\n"
    "os._exit(0)\n";

class Torch : public AgentStore {
 protected:
  void SetUp() override {
    AgentStore::SetUp();
    if (!PeersHave("torch")) GTEST_SKIP() << "no Python with PyTorch: tools/setup --peers makes one";
  }
};
MT_UNDER_EITHER(Torch);

TEST_P(Torch, ClientsAreServedAfterRankZeroEnded) {
  support::WriteText(folder_.File("late.py"), kTorchLate);
  const auto run = Start({"--standalone", "--nproc_per_node=2", folder_.File("late.py")},
                         {{"PYTHON_EXEC", PeersPython()}});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(run->Text(), AllOf(HasSubstr("TOTAL 3.0"), HasSubstr("LATE yes"), HasSubstr("CLIENT True")));
}

TEST_P(Torch, EveryTorchStoreRequestIsAnswered) {
  const std::string toy = support::TestFile("support/toys/store_commands.py");
  const auto run = Start({"--standalone", "--nproc_per_node=2", toy}, {{"PYTHON_EXEC", PeersPython()}});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "TOTAL 3.0"), SizeIs(2)) << run->Text();
  const auto known = From(run->OutLines(), "COMMANDS");
  ASSERT_THAT(known, SizeIs(2));
  EXPECT_THAT(known[0], HasSubstr("set get compare_set add check wait num_keys delete_key append multi_set"));
}

TEST_P(Torch, TorchConnectsOverTcpAtTheMasterPort) {
  support::WriteText(folder_.File("late.py"), kTorchLate);
  const std::string port = absl::StrCat(support::FreePort());
  const auto run = Start({"--nproc_per_node=2", "--master_port", port, folder_.File("late.py")},
                         {{"PYTHON_EXEC", PeersPython()}, {"METHOD", "tcp://127.0.0.1:" + port}});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(run->Text(), HasSubstr("LATE yes"));
}

// ---- mtrun's own ----

class TorchrunAgentStore : public LauncherTest {
 protected:
  void SetUp() override {
    if (!HavePython()) GTEST_SKIP() << "there is no python3";
  }
};

TEST_F(TorchrunAgentStore, IsNewInEachGeneration) {
  Program mtrun(Command({"--standalone", "--max_restarts=1", Toy(), "fresh"}), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("KEYS 0"));
}

TEST_F(TorchrunAgentStore, StaysWithinThePortRange) {
  const int port = support::FreePort();
  Program mtrun(Command({"--standalone", "--port_range", absl::StrCat(port, "-", port),
                         Script("say.sh", "echo port $MASTER_PORT\n")}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr(absl::StrCat("port ", port)));
}

TEST_F(TorchrunAgentStore, IsRankZerosIfRequested) {
  const std::vector<std::string> args = {"--standalone", "--nproc_per_node=2",
                                         support::TestFile("support/toys/meet.py")};
  Program flag(Command(Words({"--store=rank0"}, args)), Environment());
  support::Overlay torchruns = Environment();
  torchruns["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1";
  Program variable(Command(args), torchruns);
  for (Program* run : {&flag, &variable}) {
    EXPECT_EQ(run->Wait(), 0) << run->Text();
    EXPECT_THAT(run->Text(), HasSubstr("MET [0, 1]"));
  }
  Program clash(Command(args), Environment());
  EXPECT_EQ(clash.Wait(), 1) << clash.Text();
  EXPECT_THAT(clash.Text(), HasSubstr("--store rank0"));
}

TEST_F(TorchrunAgentStore, IsNotServedToTrainers) {
  support::WriteText(folder_.File("trainer"), "#!/bin/sh\necho store $TORCHELASTIC_USE_AGENT_STORE\n", true);
  support::Overlay overlay = Environment();
  overlay["MTRUN_TRAINER_PATH"] = folder_.path();
  Program mtrun(Command({"--standalone", "--trainer", "trainer"}), overlay);
  EXPECT_TRUE(mtrun.WaitForLine("store False")) << mtrun.Text();
  mtrun.Signal(SIGTERM);
  mtrun.Wait();
}

}  // namespace
}  // namespace mtrun::e2e

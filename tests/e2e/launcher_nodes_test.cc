// Several agents: on the loopback address, and on two machines made of network namespaces.
#include <signal.h>

#include <cstdlib>

#include "absl/strings/str_replace.h"
#include "base/posix.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/launcher.h"
#include "tests/support/namespaces.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class NodesTest : public LauncherTest {
 protected:
  std::unique_ptr<Program> StartNode(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--nnodes",        "2",       "--nproc_per_node", "2",
                                     "--rdzv_endpoint", endpoint_, "--rdzv_id",        "job"};
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<Program>(Command(args), Environment());
  }
};

TEST_F(NodesTest, TwoAgentsFormOneWorld) {
  const std::string script = Script(
      "run.sh", "echo rank $RANK of $WORLD_SIZE node $GROUP_RANK of $GROUP_WORLD_SIZE master $MASTER_PORT\n");
  const auto first = StartNode({"--node_rank", "0", script});
  ASSERT_TRUE(first->WaitForLine("hosting the rendezvous at " + endpoint_)) << first->Text();
  const auto second = StartNode({"--node_rank", "1", script});
  ASSERT_EQ(first->Wait(), 0) << first->Text();
  ASSERT_EQ(second->Wait(), 0) << second->Text();
  const auto ranks = [](Program& program) {
    std::vector<std::string> said = From(program.OutLines(), "rank ");
    for (std::string& line : said) line.erase(line.find(" master"));
    return said;
  };
  EXPECT_THAT(ranks(*first), UnorderedElementsAre("rank 0 of 4 node 0 of 2", "rank 1 of 4 node 0 of 2"));
  EXPECT_THAT(ranks(*second), UnorderedElementsAre("rank 2 of 4 node 1 of 2", "rank 3 of 4 node 1 of 2"));
  EXPECT_THAT(From(second->OutLines(), "master"),
              testing::Each(testing::AnyOfArray(From(first->OutLines(), "master"))));
  EXPECT_TRUE(second->WaitForLine("hosted elsewhere", Seconds(0)));
}

TEST_F(NodesTest, AllNodesPrintAFailureAndExitWithItsCode) {
  const std::string script =
      Script("run.sh", "echo ready; if [ $RANK = 3 ]; then echo the cause >&2; exit 9; fi; sleep 1000\n");
  const auto first = StartNode({"--node_rank", "0", script});
  const auto second = StartNode({"--node_rank", "1", script});
  EXPECT_EQ(first->Wait(), 9) << first->Text();
  EXPECT_EQ(second->Wait(), 9) << second->Text();
  for (Program* program : {first.get(), second.get()}) {
    EXPECT_THAT(program->Text(), AllOf(HasSubstr("run.sh FAILED"), HasSubstr("3 (local_rank: 1)"),
                                       HasSubstr("exitcode  : 9 "), HasSubstr("| the cause")));
  }
}

TEST_F(NodesTest, KilledAgentEndsAJobThatNeedsIt) {
  const std::string script = Script("run.sh", "echo ready; sleep 1000\n");
  const auto first = StartNode({"--node_rank", "0", script});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  const auto second = StartNode({"--node_rank", "1", script});
  ASSERT_TRUE(first->WaitForLines("ready", 2) && second->WaitForLines("ready", 2))
      << first->Text() << second->Text();
  second->Signal(SIGKILL);
  // The other node is notified at once, reports it, and waits for a replacement.
  EXPECT_TRUE(first->WaitForLine("generation 1 ended", kSoon)) << first->Text();
  const auto third = StartNode({"--node_rank", "1", Script("run2.sh", "true\n")});
  EXPECT_TRUE(first->WaitForLine("generation 2 formed: 2 nodes", kSoon)) << first->Text();
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 143) << first->Text();
  third->Signal(SIGTERM);
  third->Wait();
}

TEST_F(NodesTest, NodeWithDifferentSettingsIsRefused) {
  const auto first = StartNode({"--max_restarts", "1", Script("run.sh", "true\n")});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  const auto second = StartNode({"--max_restarts", "2", Script("run.sh", "true\n")});
  EXPECT_EQ(second->Wait(), 1) << second->Text();
  EXPECT_THAT(second->Text(), AllOf(HasSubstr("refused"), HasSubstr("max_restarts")));
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 143);
}

/// A test program that uses the worker channel.
std::string ToyWorker() { return support::BinaryFolder() + "/../tests/toy_worker"; }

TEST_F(NodesTest, WorkersShareKeysThroughTheirAgents) {
  const auto first = StartNode({"--node_rank", "0", ToyWorker()});
  const auto second = StartNode({"--node_rank", "1", ToyWorker()});
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  for (Program* program : {first.get(), second.get()}) {
    EXPECT_EQ(From(program->OutLines(), "all ranks of attempt 0: rank0=0 rank1=0 rank2=0 rank3=0").size(), 2u)
        << program->Text();
    EXPECT_EQ(From(program->OutLines(), "\"type\":\"assignment\",\"world_size\":4").size(), 2u)
        << program->Text();
  }
}

TEST_F(NodesTest, NewGenerationHasNoOldKeys) {
  const auto first = StartNode({"--node_rank", "0", "--max_restarts", "1", ToyWorker(), "fail_once"});
  const auto second = StartNode({"--node_rank", "1", "--max_restarts", "1", ToyWorker(), "fail_once"});
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_EQ(From(first->OutLines(), "all ranks").size(), 2u);
  EXPECT_EQ(From(second->OutLines(), "all ranks of attempt 1: rank0=1 rank1=1 rank2=1 rank3=1").size(), 2u)
      << second->Text();
  EXPECT_THAT(second->Text(),
              HasSubstr("killed by SIGKILL"));  // reported on the other node too
}

TEST_F(NodesTest, JobIdCanBeReusedAtOnce) {
  const std::string port = endpoint_.substr(endpoint_.rfind(':') + 1);
  Program service({support::BinaryFolder() + "/mtrdzv", "--host", "127.0.0.1", "--port", port},
                  Environment());
  ASSERT_TRUE(service.WaitForLine("serving")) << service.Text();
  for (int run = 0; run < 5; ++run) {
    const auto mtrun = Agent("1", {"--no_python", "/bin/true"});
    EXPECT_EQ(mtrun->Wait(), 0) << "run " << run << ": " << mtrun->Text();
  }
}

/// A job that is given an id may have different programs.
TEST_F(NodesTest, DifferentProgramUnderTheDefaultIdIsRefusedByName) {
  const std::string first_script = Script("first.sh", "echo ready\nsleep 1000\n");
  const std::string other_script = Script("other.sh", "true\n");
  const auto start = [&](const std::vector<std::string>& more) {
    return std::make_unique<Program>(Command(Words({"--nnodes", "1:2", "--rdzv_endpoint", endpoint_}, more)),
                                     Environment());
  };
  const auto first = start({first_script});
  ASSERT_TRUE(first->WaitForLine("ready")) << first->Text();
  const auto other = start({other_script});
  EXPECT_EQ(other->Wait(), 1) << other->Text();
  EXPECT_THAT(other->Text(),
              AllOf(HasSubstr("program is other.sh"), HasSubstr("first.sh"), HasSubstr("--rdzv_id")));
  const auto same = start({first_script, "with", "arguments"});
  ASSERT_TRUE(same->WaitForLine("ready")) << same->Text();
  for (const auto* program : {&first, &same}) (*program)->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 128 + SIGTERM) << first->Text();
  EXPECT_EQ(same->Wait(), 128 + SIGTERM) << same->Text();
}

/// Tokens and keys in variables are for mtrun alone.
TEST_F(NodesTest, WorkersSeeNeitherTokenNorDataKey) {
  const auto mtrun =
      Agent("1", {Script("run.sh", "echo token ${MTRUN_TOKEN-none}, key ${MTRUN_DATA_KEY-none}\n")});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), HasSubstr("token none, key none"));
  EXPECT_THAT(mtrun->Text(), Not(HasSubstr(support::kToken)));
}

/// A single node needs no token, and a token made for a request would not be accepted by any job.
TEST_F(NodesTest, OnlyAJoinableJobMakesAToken) {
  const std::string home = folder_.File("home");
  std::filesystem::create_directories(home);
  const auto run = [&](const std::vector<std::string>& args) {
    support::Overlay overlay = Environment();
    overlay[kTokenVariable] = std::nullopt;
    overlay["HOME"] = home;
    Program mtrun(Command(args), overlay);
    const int status = mtrun.Wait().value_or(-1);
    return std::pair(status, mtrun.Text());
  };
  const auto [alone, alone_text] = run({"--standalone", "--no_python", "/bin/true"});
  EXPECT_EQ(alone, 0) << alone_text;
  EXPECT_FALSE(std::filesystem::exists(home + "/.mtrun"));
  for (const std::vector<std::string>& question : {std::vector<std::string>{"--status", endpoint_},
                                                   {"--status", endpoint_, "--watch"},
                                                   {"--logs", "0", endpoint_},
                                                   {"--stop", endpoint_}}) {
    const auto [asked, text] = run(question);
    EXPECT_EQ(asked, 1) << text;
    EXPECT_THAT(text, HasSubstr("no token: there is no ")) << question[0];
    EXPECT_FALSE(std::filesystem::exists(home + "/.mtrun")) << question[0];
  }
  const auto [job, job_text] =
      run({"--nnodes", "1", "--rdzv_endpoint", endpoint_, "--no_python", "/bin/true"});
  EXPECT_EQ(job, 0) << job_text;
  EXPECT_TRUE(std::filesystem::exists(home + "/.mtrun/token")) << "it would be seen\n" << job_text;
}

/// Loopback is shared by all users of a machine; the token belongs to its owner.
TEST_F(NodesTest, OtherUserOfThisMachineIsRefused) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  // Other users cannot access the folder in which it was built.
  const std::string copy = folder_.File("mtrun_copy");
  std::filesystem::copy_file(Mtrun(), copy);
  std::filesystem::copy_file(support::TestFile("tsan.supp"), folder_.File("tsan.supp"));
  const char* const options = std::getenv("TSAN_OPTIONS");
  const std::string tsan = options == nullptr ? "" : options;
  const auto as = [&](const std::string& user, std::vector<std::string> args) {
    args.front() = copy;
    const std::string home = folder_.File("home" + user);
    std::filesystem::create_directories(home);
    EXPECT_EQ(chown(home.c_str(), static_cast<uid_t>(std::stoi(user)), 0), 0);
    support::Overlay overlay = Environment();
    overlay[kTokenVariable] = std::nullopt;
    overlay["HOME"] = overlay["TMPDIR"] = overlay["XDG_STATE_HOME"] = home;
    overlay["TSAN_OPTIONS"] =
        absl::StrReplaceAll(tsan.empty() ? "halt_on_error=1" : tsan,
                            {{support::TestFile("tsan.supp"), folder_.File("tsan.supp")}});
    args.insert(args.begin(), {"setpriv", "--reuid", user, "--clear-groups", "--inh-caps=-all"});
    return std::make_unique<Program>(args, overlay);
  };
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  const std::vector<std::string> job = {"--nnodes", "1:2", "--rdzv_endpoint", endpoint_, "--rdzv_id", "job"};
  const auto owner = as("0", Command(Words(job, {Script("run.sh", "echo ready\nsleep 1000\n")})));
  ASSERT_TRUE(owner->WaitForLine("ready")) << owner->Text();
  const auto joins = as("65534", Command(Words(job, {"/bin/true"})));
  EXPECT_EQ(joins->Wait(), 1) << joins->Text();
  EXPECT_THAT(joins->Text(), HasSubstr("has another token"));
  const auto asks = as("65534", Command({"--status", endpoint_}));
  EXPECT_EQ(asks->Wait(), 1) << asks->Text();
  const auto evicts = as("65534", Command({"--evict", "node1", endpoint_}));
  EXPECT_EQ(evicts->Wait(), 1) << evicts->Text();
  EXPECT_TRUE(owner->WaitForLine("turned away 127.0.0.1:")) << owner->Text();
  const auto status = as("0", Command({"--status", endpoint_}));
  EXPECT_EQ(status->Wait(), 0) << status->Text();
  EXPECT_THAT(status->Text(), HasSubstr("job job"));
  owner->Signal(SIGTERM);
  EXPECT_EQ(owner->Wait(), 128 + SIGTERM) << owner->Text();
}

TEST_F(NodesTest, EarliestFailureIsTheCauseOnEveryNode) {
  // Rank 1 fails first, but its agent is frozen and reports it after the failure of rank 0.
  const std::string script = Script(
      "run.sh",
      absl::StrCat("await() { while [ ! -e ", folder_.path(), "/$1 ]; do sleep 0.02; done; }\n",
                   "if [ $RANK = 0 ]; then await go; exit 4; fi\n", "echo agent $PPID; await stopped\n",
                   "echo '{\"message\":\"the cause\",\"timestamp\":1}' > $TORCHELASTIC_ERROR_FILE\n",
                   "touch ", folder_.File("go"), "; exit 3\n"));
  const std::vector<std::string> patient = {"--rdzv_conf=keep_alive_interval=20", "--node_rank"};
  const auto first = Agent("2", Words(patient, {"0", script}), {{"LOGLEVEL", "DEBUG"}});
  const auto second = Agent("2", Words(patient, {"1", script}));
  const auto line = second->WaitForLine("agent ");
  ASSERT_TRUE(line) << second->Text();
  const pid_t agent = std::stoi(line->substr(line->find("agent ") + 6));
  kill(agent, SIGSTOP);
  support::WriteText(folder_.File("stopped"), "");
  EXPECT_TRUE(first->WaitForLine("exit code 4")) << first->Text();  // the report is printed
  kill(agent, SIGCONT);
  for (Program* node : {first.get(), second.get()}) {
    EXPECT_EQ(node->Wait(), 3) << node->Text();
    EXPECT_THAT(node->Text(),
                AllOf(HasSubstr("rank      : 1 (local_rank: 0)"), HasSubstr("traceback : the cause")));
  }
}

/// Returns the output and exit status of `mtrun --status` for `endpoint`.
std::pair<std::string, int> Ask(const std::vector<std::string>& command,
                                const support::Overlay& environment) {
  Program mtrun(command, environment);
  const int status = mtrun.Wait().value_or(-1);
  return {mtrun.Text(), status};
}

TEST_F(NodesTest, StatusListsTheNodes) {
  const auto ask = [&](const std::vector<std::string>& more = {}) {
    return Ask(Command(Words({"--status", endpoint_}, more)), Environment());
  };
  const auto [nobody, nobody_status] = ask();
  EXPECT_EQ(nobody_status, 1);
  EXPECT_THAT(nobody, HasSubstr("no rendezvous service answers at " + endpoint_));
  const std::string script = Script(
      "run.sh", absl::StrCat("echo up\nwhile [ ! -e ", folder_.File("go"), " ]; do sleep 0.05; done\n"));
  const auto first = StartNode({"--node_rank=0", "--max_restarts=3", script});
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  std::pair<std::string, int> alone;
  do alone = ask();  // the agent must first register with its own service
  while (alone.second == 0 && alone.first.find(", 1 node waits") == std::string::npos &&
         !first->Wait(Seconds(0)));
  EXPECT_THAT(alone.first, AllOf(HasSubstr("job job: forming for "),
                                 HasSubstr("0 nodes (of 2) and 0 workers"), HasSubstr(", 1 node waits")));
  const auto second = StartNode({"--node_rank=1", "--max_restarts=3", script});
  ASSERT_TRUE(first->WaitForLine("]:up") && second->WaitForLine("]:up")) << first->Text();
  const auto [table, status] = ask();
  EXPECT_EQ(status, 0);
  EXPECT_THAT(table, AllOf(HasSubstr("job job: running for "), HasSubstr("generation 1 with 2 nodes"),
                           HasSubstr("4 workers"), HasSubstr("restarts 0 of 3"), HasSubstr("last change: "),
                           HasSubstr("ranks"), HasSubstr("2-3")));
  const auto json = nlohmann::json::parse(ask({"--json"}).first)["jobs"].at(0);
  EXPECT_EQ(json["phase"], "running");
  EXPECT_EQ(json["generation"], 1);
  EXPECT_EQ(json["max_restarts"], 3);
  ASSERT_EQ(json["nodes"].size(), 2u);
  EXPECT_EQ(json["nodes"][1]["first_rank"], 2);
  support::WriteText(folder_.File("go"), "");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_F(NodesTest, StatusTakesNoProgram) {
  const auto [program, program_status] = Ask(Command({"--status", endpoint_, "true"}), Environment());
  EXPECT_EQ(program_status, 2);
  EXPECT_THAT(program, HasSubstr("--status only asks"));
  const auto [json, json_status] = Ask(Command({"--json", "true"}), Environment());
  EXPECT_EQ(json_status, 2);
  EXPECT_THAT(json, HasSubstr("--json goes with --status"));
}

TEST_F(NodesTest, EvictionNeedsAServiceAndAMember) {
  const auto evict = [&](const std::vector<std::string>& words) {
    return Ask(Command(Words({"--evict"}, words)), Environment());
  };
  const auto [nobody, nobody_status] = evict({"node3", endpoint_});
  EXPECT_EQ(nobody_status, 1);
  EXPECT_THAT(nobody, HasSubstr("no rendezvous service answers at " + endpoint_));
  const auto [nowhere, nowhere_status] = evict({"node3"});
  EXPECT_EQ(nowhere_status, 2);
  EXPECT_THAT(nowhere, HasSubstr("--evict node3 needs an ENDPOINT"));
  const std::string script = Script(
      "run.sh", absl::StrCat("echo up\nwhile [ ! -e ", folder_.File("go"), " ]; do sleep 0.05; done\n"));
  const auto first = StartNode({"--node_rank=0", script}), second = StartNode({"--node_rank=1", script});
  ASSERT_TRUE(first->WaitForLine("]:up") && second->WaitForLine("]:up")) << first->Text();
  const auto [stranger, stranger_status] = evict({"node3", endpoint_, "--rdzv_id", "job"});
  EXPECT_EQ(stranger_status, 1);
  EXPECT_THAT(stranger, HasSubstr("\"node3\" is no member of generation 1 of job \"job\", which is of "));
  support::WriteText(folder_.File("go"), "");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

class NamespacesTest : public LauncherTest {
 protected:
  void SetUp() override {
    auto nodes = support::TwoNodes::Make();
    if (!nodes.ok()) GTEST_SKIP() << nodes.status().message();
    nodes_ = *std::move(nodes);
  }

  std::unique_ptr<Program> StartNode(int node, const std::vector<std::string>& more,
                                     const support::Overlay& environment = {}) {
    std::vector<std::string> args = {
        "--nnodes", "2", "--nproc_per_node", "2", "--rdzv_endpoint", nodes_->Address(0) + ":29400"};
    args.insert(args.end(), more.begin(), more.end());
    support::Overlay overlay = Environment();
    overlay["HOME"] = folder_.path();  // both nodes share it, and so the token
    for (const auto& [name, value] : environment) overlay[name] = value;
    return std::make_unique<Program>(nodes_->On(node, Command(args)), overlay);
  }

  std::unique_ptr<support::TwoNodes> nodes_;
};

TEST_F(NamespacesTest, WorkersConnectToTheMasterOverTcp) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::string script = support::TestFile("support/toys/meet.py");
  // The node that does not host comes first: it reports that it waits, and continues once there is a service.
  const auto second = StartNode(1, {"--store=rank0", script});
  ASSERT_TRUE(second->WaitForLine("hosted elsewhere")) << second->Text();
  const auto first = StartNode(0, {"--store=rank0", script});
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
  EXPECT_TRUE(first->WaitForLine("MET [0, 1, 2, 3] at 10.77.0.1", Seconds(0))) << first->Text();
  EXPECT_TRUE(first->WaitForLine("hosting the rendezvous at 10.77.0.1:29400", Seconds(0))) << first->Text();
  EXPECT_EQ(From(second->OutLines(), "SENT").size(), 2u) << second->Text();
}

TEST_F(NamespacesTest, KilledWorkerIsReportedOnTheOtherNodeToo) {
  const std::string script =
      Script("run.sh", "echo ready; if [ $RANK = 3 ]; then kill -9 $$; fi; sleep 1000\n");
  const auto first = StartNode(0, {"--node_rank", "0", script});
  const auto second = StartNode(1, {"--node_rank", "1", script});
  EXPECT_EQ(first->Wait(), 137) << first->Text();
  EXPECT_EQ(second->Wait(), 137) << second->Text();
  for (Program* program : {first.get(), second.get()}) {
    EXPECT_THAT(program->Text(), AllOf(HasSubstr("run.sh FAILED"), HasSubstr("SIGKILL"), HasSubstr("node1"),
                                       HasSubstr("3 (local_rank: 1)")));
  }
}

TEST_F(NamespacesTest, NodeWithAnotherTokenIsRefused) {
  const std::vector<std::string> job = {"--rdzv_conf", "join_timeout=60", "true"};
  const auto first = StartNode(0, job);
  ASSERT_TRUE(first->WaitForLine("hosting")) << first->Text();
  const support::Overlay overlay = {{kTokenVariable, support::kOtherToken}};
  const auto second = StartNode(1, job, overlay);
  EXPECT_EQ(second->Wait(), 1) << second->Text();
  EXPECT_THAT(second->Text(), HasSubstr("has another token"));
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 143) << first->Text();
}

TEST_F(NamespacesTest, PodWithoutATokenGetsTheMissingManifestLines) {
  const support::Overlay overlay = {{kTokenVariable, std::nullopt},
                                    {"HOME", folder_.path()},
                                    {"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                    {"MASTER_ADDR", "train-master-0"}};
  const auto pod = StartNode(0, {"true"}, overlay);
  EXPECT_EQ(pod->Wait(), 1) << pod->Text();
  EXPECT_THAT(pod->Text(),
              AllOf(HasSubstr("to the container pytorch:\n  env:\n  - name: MTRUN_TOKEN\n"
                              "    valueFrom: {secretKeyRef: {name: mtrun-token, key: token}}\n"),
                    HasSubstr("kubectl create secret generic mtrun-token")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File(".mtrun")));
}

}  // namespace
}  // namespace mtrun::e2e

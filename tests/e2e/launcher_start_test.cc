// mtrun from a user's view: environment, output, wrong command lines.
#include <signal.h>

#include <filesystem>
#include <map>

#include "base/posix.h"
#include "base/version.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

/// Returns the output of environment.py, by rank.
std::map<std::string, nlohmann::json> Environments(Program& program) {
  std::map<std::string, nlohmann::json> by_rank;
  for (const std::string& line : From(program.OutLines(), "ENV ")) {
    const nlohmann::json said = nlohmann::json::parse(line.substr(4));
    by_rank[said["env"]["RANK"]] = said;
  }
  return by_rank;
}

TEST_F(LauncherTest, PythonScriptsGetTheEnvironmentOfTorchrun) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::string script = support::TestFile("support/toys/environment.py");
  support::Overlay overlay = Environment();
  overlay["SENTINEL"] = "from the parent";
  overlay["WORLD_SIZE"] = "77";  // Kubernetes' own must not be passed on
  Program mtrun(Command({"--standalone", "--nproc_per_node", "4", "--max-restarts", "3", "python3", script,
                         "--x", "${local_rank}"}),
                overlay);
  ASSERT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  auto said = Environments(mtrun);
  ASSERT_EQ(said.size(), 4u) << mtrun.Text();
  for (int rank = 0; rank < 4; ++rank) {
    const std::string text = std::to_string(rank);
    const nlohmann::json& env = said[text]["env"];
    const std::map<std::string, std::string> expected = {{"LOCAL_RANK", text},
                                                         {"RANK", text},
                                                         {"GROUP_RANK", "0"},
                                                         {"ROLE_RANK", text},
                                                         {"ROLE_NAME", "default"},
                                                         {"LOCAL_WORLD_SIZE", "4"},
                                                         {"WORLD_SIZE", "4"},
                                                         {"GROUP_WORLD_SIZE", "1"},
                                                         {"ROLE_WORLD_SIZE", "4"},
                                                         {"MASTER_ADDR", "127.0.0.1"},
                                                         {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                         {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                         {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                         {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                         {"OMP_NUM_THREADS", "1"},
                                                         {"SENTINEL", "from the parent"}};
    for (const auto& [name, value] : expected)
      EXPECT_EQ(env.value(name, "(not set)"), value) << name << " of rank " << rank;
    EXPECT_GT(std::stoi(env["MASTER_PORT"].get<std::string>()), 0);
    EXPECT_NE(env.value("TORCHELASTIC_RUN_ID", ""), "");
    EXPECT_THAT(env.value("TORCHELASTIC_ERROR_FILE", ""), HasSubstr("/attempt_0/" + text + "/error.json"));
    EXPECT_NE(env.value("MTRUN_SOCKET", ""), "");
    EXPECT_NE(env.value("MTRUN_GENERATION", ""), "");
    EXPECT_EQ(env["MASTER_PORT"], said["0"]["env"]["MASTER_PORT"]);
    EXPECT_EQ(said[text]["argv"], nlohmann::json({"--x", text}));
  }
  EXPECT_TRUE(mtrun.WaitForLine("OMP_NUM_THREADS is not set", Seconds(0)));
  EXPECT_TRUE(mtrun.WaitForLine("generation 1 formed: 1 node, world size 4", Seconds(0)));
}

TEST_F(LauncherTest, PyFilesNeedNoInterpreter) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  support::Overlay overlay = Environment();
  overlay["PET_NPROC_PER_NODE"] = "2";
  overlay["PET_RDZV_ID"] = "a job";
  Program mtrun(Command({"--standalone", support::TestFile("support/toys/environment.py")}), overlay);
  ASSERT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  auto said = Environments(mtrun);
  EXPECT_EQ(said.size(), 2u);
  EXPECT_EQ(said["1"]["env"]["TORCHELASTIC_RUN_ID"], "a job");
}

TEST_F(LauncherTest, ShellScriptsGetTheEnvironmentOfTorchrun) {
  const std::string script = Script("run.sh", "echo rank $RANK of $WORLD_SIZE, local $LOCAL_RANK, \"$1\"\n");
  Program mtrun(Command({"--standalone", "--nproc-per-node=4", script, "two words"}), Environment());
  ASSERT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), UnorderedElementsAre("[default0]:rank 0 of 4, local 0, two words",
                                                     "[default1]:rank 1 of 4, local 1, two words",
                                                     "[default2]:rank 2 of 4, local 2, two words",
                                                     "[default3]:rank 3 of 4, local 3, two words"));
}

TEST_F(LauncherTest, OutputIsKeptPerRank) {
  const std::string script = Script("run.sh", "echo out $RANK; echo err $RANK >&2; printf 'no newline'\n");
  Program mtrun(Command({"--standalone", "--nproc_per_node", "2", "--log_dir", folder_.File("logs"),
                         "--rdzv_id", "job", "--role", "w", script}),
                Environment());
  ASSERT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(),
              AllOf(Contains("[w0]:out 0"), Contains("[w1]:out 1"), Contains("[w1]:no newline")));
  EXPECT_THAT(mtrun.ErrLines(), AllOf(Contains("[w0]:err 0"), Contains("[w1]:err 1")));
  std::string run;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.File("logs"))) run = entry.path();
  EXPECT_THAT(run, HasSubstr("/job_"));
  EXPECT_EQ(support::ReadText(run + "/attempt_0/0/stdout.log"), "out 0\nno newline");
  EXPECT_EQ(support::ReadText(run + "/attempt_0/1/stderr.log"), "err 1\n");
}

TEST_F(LauncherTest, TrainersRunUnderTheirName) {
  std::filesystem::create_directory(folder_.File("trainers"));
  Script("trainers/toy", "echo rank $RANK gets \"$@\"\n");
  support::WriteText(folder_.File("run.yaml"),
                     "mtrun:\n  standalone: true\n  nproc_per_node: 2\ntoy:\n  epochs: 3\n");
  support::Overlay overlay = Environment();
  overlay["MTRUN_TRAINER_PATH"] = folder_.File("trainers");
  Program mtrun(
      Command({"--config", folder_.File("run.yaml"), "--trainer", "toy", "--epochs", "4", "--nnodes", "x"}),
      overlay);
  ASSERT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  const std::string rest = " gets --config " + folder_.File("run.yaml") + " --epochs 4 --nnodes x";
  EXPECT_THAT(mtrun.OutLines(), UnorderedElementsAre("[toy0]:rank 0" + rest, "[toy1]:rank 1" + rest));
}

TEST_F(LauncherTest, MissingTrainerListsTheOthers) {
  std::filesystem::create_directory(folder_.File("trainers"));
  Script("trainers/toyA", "true\n");
  support::Overlay overlay = Environment();
  overlay["MTRUN_TRAINER_PATH"] = folder_.File("trainers");
  Program mtrun(Command({"--standalone", "--trainer", "toyB"}), overlay);
  EXPECT_EQ(mtrun.Wait(), 2);
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("toyB"), HasSubstr("toyA")));
}

struct WrongCase {
  std::vector<std::string> args;
  std::string said;
};

TEST_F(LauncherTest, WrongCommandLinesFailAndStartNothing) {
  const std::vector<WrongCase> cases = {
      {{"--standalone", "no-such-program", "x"}, "\"no-such-program\" does not exist"},
      {{"--standalone", "no_such.py"}, "\"no_such.py\" does not exist"},
      {{"--nnodes", "3:1", "true"}, "--nnodes: \"3:1\""},
      {{"--nproc_per_nodes", "2", "true"}, "did you mean --nproc_per_node?"},
      {{"--nnodes", "2", "--rdzv_backend", "c10d", "true"}, "--rdzv_endpoint"},
      {{"--no_python", "-m", "x"}, "exclude"},
      {{}, "nothing to run"},
      {{"--standalone", "--log_dir", "/dev/null/x", "true"}, "--log_dir"},
  };
  for (const WrongCase& wrong : cases) {
    Program mtrun(Command(wrong.args), Environment());
    EXPECT_EQ(mtrun.Wait(), 2) << wrong.said;
    EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr(wrong.said), Not(HasSubstr("generation")))) << wrong.said;
    EXPECT_EQ(mtrun.ErrLines().size(), 1u) << mtrun.Text();  // one line, no trace
  }
}

TEST_F(LauncherTest, UnknownKeysInTheFileAreReportedWithTheirLine) {
  support::WriteText(folder_.File("run.yaml"), "mtrun:\n  standalone: true\n  nproc_per_nod: 2\n");
  Program mtrun(Command({"--config", folder_.File("run.yaml"), "true"}), Environment());
  EXPECT_EQ(mtrun.Wait(), 2);
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("run.yaml:3"), HasSubstr("nproc_per_node")));
}

TEST_F(LauncherTest, HelpAndVersion) {
  Program help(Command({"--help"}), Environment());
  EXPECT_EQ(help.Wait(), 0);
  EXPECT_THAT(help.Text(), AllOf(HasSubstr("usage: mtrun"), HasSubstr("--nproc_per_node")));
  Program version(Command({"--version"}), Environment());
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.OutLines(),
              ElementsAre(MatchesRegex("mtrun " + Version() +
                                       " \\(commit ([0-9a-f]{8}|unknown), gRPC 1\\.[0-9.]+\\)")));
}

TEST_F(LauncherTest, PortInUseIsReported) {
  Program holder(
      Command({"--nnodes", "1:2", "--rdzv_endpoint", "127.0.0.1:" + std::to_string(support::FreePort()),
               "--rdzv_conf", "is_host=true,last_call_timeout=600", "true"}),
      Environment());
  const auto line = holder.WaitForLine("hosting the rendezvous at ");
  ASSERT_TRUE(line) << holder.Text();
  const std::string endpoint = line->substr(line->find("127.0.0.1:"));
  Program mtrun(Command({"--rdzv_endpoint", endpoint.substr(0, endpoint.find(": ")), "--rdzv_conf",
                         "is_host=true", "true"}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 1);
  EXPECT_THAT(mtrun.Text(), HasSubstr("in use"));
  holder.Signal(SIGTERM);
  EXPECT_EQ(holder.Wait(), 143);
}

/// Two jobs of one machine with the same port. The workers of trainers start before there is a generation and
/// must be notified: mtrun does not wait for their shutdown timeout.
TEST_F(LauncherTest, MasterPortInUseEndsTrainersToo) {
  std::filesystem::create_directory(folder_.File("trainers"));
  Script("trainers/toy", "exec sleep 1000\n");
  support::Overlay overlay = Environment();
  overlay["MTRUN_TRAINER_PATH"] = folder_.File("trainers");
  const std::string port = std::to_string(support::FreePort());
  Program holder(
      Command({"--standalone", "--master_port", port, Script("run.sh", "echo ready; sleep 1000\n")}),
      Environment());
  ASSERT_TRUE(holder.WaitForLine("ready")) << holder.Text();
  Program mtrun(Command({"--standalone", "--master_port", port, "--shutdown_timeout", "1000",
                         "--nproc_per_node", "2", "--trainer", "toy"}),
                overlay);
  EXPECT_EQ(mtrun.Wait(), 1) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("bind port " + port + " for MASTER_PORT"));
  holder.Signal(SIGTERM);
  EXPECT_EQ(holder.Wait(), 143);
}

/// No guardian exists yet while a trainer checks its settings, for example on a disk that does not respond.
TEST_F(LauncherTest, SettingsCheckDiesWithMtrun) {
  std::filesystem::create_directory(folder_.File("trainers"));
  Script("trainers/trainer", "echo $1; exec sleep 1000\n");
  std::filesystem::create_symlink("trainer", folder_.File("trainers/toy"));
  support::Overlay overlay = Environment();
  overlay["MTRUN_TRAINER_PATH"] = folder_.File("trainers");
  for (const int signal : {SIGTERM, SIGKILL}) {
    Program mtrun(Command({"--standalone", "--trainer", "toy"}), overlay);
    ASSERT_TRUE(mtrun.WaitForLine("--check")) << mtrun.Text();
    mtrun.Signal(signal);
    EXPECT_EQ(mtrun.Wait(), 128 + signal);
    EXPECT_TRUE(mark_.WaitForNone(kSoon)) << "the check goes on";
  }
}

TEST_F(LauncherTest, UnreachableEndpointIsReportedDuringRetries) {
  const std::string endpoint = "127.0.0.1:" + std::to_string(support::FreePort());
  Program mtrun(Command({"--nnodes", "2", "--rdzv_endpoint", endpoint, "--rdzv_conf",
                         "is_host=false,join_timeout=8", "true"}),
                Environment());
  EXPECT_TRUE(mtrun.WaitForLine(endpoint + ", hosted elsewhere"));
  EXPECT_TRUE(mtrun.WaitForLine(" W ")) << mtrun.Text();  // the first retry that is reported
  EXPECT_EQ(mtrun.Wait(), 1);
  EXPECT_THAT(mtrun.Text(),
              AllOf(HasSubstr("no rendezvous service answered at " + endpoint), HasSubstr("join_timeout")));
}

/// A wheel contains one program for both.
TEST_F(LauncherTest, LinkNamedMtrdzvRunsTheService) {
  const std::string link = folder_.File("mtrdzv");
  std::filesystem::create_symlink(support::BinaryFolder() + "/mtrun", link);
  Program version({link, "--version"}, Environment());
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_THAT(version.Text(), AllOf(StartsWith("mtrdzv " + Version() + " (commit "), HasSubstr(", gRPC ")));
  Program service({link, "--host", "127.0.0.1", "--port", "0"}, Environment());
  EXPECT_TRUE(service.WaitForLine("serving at 127.0.0.1:")) << service.Text();
  service.Signal(SIGTERM);
  EXPECT_EQ(service.Wait(), 0) << service.Text();
}

}  // namespace
}  // namespace mtrun::e2e

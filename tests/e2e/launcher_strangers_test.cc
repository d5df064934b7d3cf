// Another user without a token attacks the ports of a job: the user opens idle connections, tries to join or
// end the job, blocks its probes, and listens where its workers will connect. None of this affects the job.
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_split.h"
#include "tests/e2e/launcher.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int kFiles = 1024;  // that an mtrun of these tests may open

class StrangersTest : public LauncherTest {
 protected:
  void SetUp() override {
    if (getuid() != 0) GTEST_SKIP() << "needs root";
    if (Program(support::AsNobody({"python3", "-c", "pass"})).Wait() != 0)
      GTEST_SKIP() << "no python3 here that another user may run";
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  }
  /// Makes separate machines; without a network, this machine is the only one.
  void MakeNetwork() {
    auto network = support::Network::Make(2);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
  }

  std::vector<std::string> Command(const std::vector<std::string>& args) const override {
    return On(0, Words({"prlimit", absl::StrCat("--nofile=", kFiles), Mtrun()}, args));
  }
  std::vector<std::string> On(int node, const std::vector<std::string>& argv) const {
    return network_ ? network_->On(node, argv) : argv;
  }
  std::string Host() const { return network_ ? network_->Address(0) : "127.0.0.1"; }
  std::string Where() const { return absl::StrCat(Host(), ":", port_); }
  std::unique_ptr<Program> Job(const std::vector<std::string>& more, const support::Overlay& overlay = {}) {
    support::Overlay environment = Environment();
    for (const auto& [name, value] : overlay) environment[name] = value;
    return std::make_unique<Program>(Command(Words({"--rdzv_endpoint", Where(), "--rdzv_id", "job"}, more)),
                                     environment);
  }

  /// Returns the command of the other user's program on `node`; that user may be unable to read the sources.
  std::vector<std::string> Toy(int node, const std::string& name,
                               const std::vector<std::string>& args) const {
    const std::string text = support::ReadText(support::TestFile("support/toys/" + name));
    return On(node, support::AsNobody(Words({"python3", "-c", text}, args)));
  }

  const int port_ = support::FreePort();
  std::unique_ptr<support::Network> network_;
};

/// If there are two machines, the other user is on the other one.
class StrangersAnywhereTest : public StrangersTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    StrangersTest::SetUp();
    if (!IsSkipped() && GetParam()) MakeNetwork();
  }
  /// Opens silent connections, of which `at_once` are accepted.
  std::unique_ptr<Program> Idle(int port, int at_once, int count) const {
    return std::make_unique<Program>(
        Toy(1, "strangers.py",
            {Host(), absl::StrCat(port), absl::StrCat(at_once), absl::StrCat("silent=", count)}));
  }
  /// Runs the other user's mtrun, with a token that it creates.
  std::pair<std::string, int> HisMtrun(const std::vector<std::string>& args) const {
    const std::string copy = folder_.File("mtrun_copy"), home = folder_.File("home");
    std::filesystem::copy_file(Mtrun(), copy, std::filesystem::copy_options::skip_existing);
    std::filesystem::create_directories(home);
    EXPECT_EQ(chown(home.c_str(), support::kNobody, support::kNobody), 0);
    support::Overlay overlay = Environment();
    overlay[kTokenVariable] = std::nullopt;
    overlay["HOME"] = overlay["TMPDIR"] = overlay["XDG_STATE_HOME"] = home;
    Program mtrun(On(1, support::AsNobody(Words({copy}, args))), overlay);
    const int status = mtrun.Wait().value_or(-1);
    return {mtrun.Text(), status};
  }
};

INSTANTIATE_TEST_SUITE_P(Of, StrangersAnywhereTest, testing::Bool(), [](const auto& of) {
  return std::string(of.param ? "AnotherMachine" : "ThisMachine");
});

TEST_P(StrangersAnywhereTest, IdleConnectionsDoNotPreventAWorkerRestart) {
  const auto job =
      Job({"--max_restarts", "1",
           Script("run.sh", "echo attempt $TORCHELASTIC_RESTART_COUNT, pid $$\nexec sleep 1000\n")});
  const auto line = job->WaitForLine("attempt 0, pid ");
  ASSERT_TRUE(line) << job->Text();
  const auto idle = Idle(port_, kFiles / 4, 900);
  ASSERT_TRUE(idle->WaitForLine("crowded:")) << idle->Text() << job->Text();
  EXPECT_TRUE(job->WaitForLine("too many connections from there")) << job->Text();
  kill(std::stoi(line->substr(line->find("pid ") + 4)), SIGKILL);
  EXPECT_TRUE(job->WaitForLine("attempt 1, pid ", kSoon)) << job->Text();
  job->Signal(SIGTERM);
  EXPECT_EQ(job->Wait(), 128 + SIGTERM) << job->Text();
}

TEST_P(StrangersAnywhereTest, ClientWithAnotherTokenNeitherJoinsNorStopsTheJob) {
  const std::string go = folder_.File("go");
  const std::vector<std::string> room = {"--nnodes", "1:2", "--rdzv_conf", "last_call_timeout=0.1"};
  const auto job = Job(Words(
      room, {Script("run.sh", absl::StrCat("echo ready\nwhile [ ! -e ", go, " ]; do sleep 0.05; done\n"))}));
  ASSERT_TRUE(job->WaitForLine("ready")) << job->Text();
  const std::vector<std::string> join =
      Words(room, {"--rdzv_endpoint", Where(), "--rdzv_id", "job", "--no_python"});
  const struct {
    std::vector<std::string> args;
    std::string said;
  } tries[] = {{Words(join, {"/bin/true"}), "has another token"},
               {Words(join, {"--insecure", "/bin/true"}), "expects TLS"},
               {{"--stop", Where()}, "has another token"},
               {{"--stop", Where(), "--insecure"}, "expects TLS"}};
  for (const auto& [args, said] : tries) {
    const auto [text, status] = HisMtrun(args);
    EXPECT_EQ(status, 1) << text;
    EXPECT_THAT(text, HasSubstr(said));
  }
  EXPECT_TRUE(job->WaitForLine(absl::StrCat("turned away ", network_ ? network_->Address(1) : Host(), ":")))
      << job->Text();
  support::WriteText(go, "");
  EXPECT_EQ(job->Wait(), 0) << job->Text();
  EXPECT_THAT(job->Text(), Not(HasSubstr("generation 2")));
}

TEST_P(StrangersAnywhereTest, IdleConnectionsDoNotBlockHealthProbes) {
  const auto job =
      Job({Script("run.sh", "echo ready\nexec sleep 1000\n")}, {{"TORCHELASTIC_HEALTH_CHECK_PORT", "0"}});
  const auto line = job->WaitForLine("the health endpoint answers on port ");
  ASSERT_TRUE(line) << job->Text();
  const std::string port = line->substr(line->find("port ") + 5);
  ASSERT_TRUE(job->WaitForLine("ready")) << job->Text();
  const auto idle = Idle(std::stoi(port), 64, 200);
  ASSERT_TRUE(idle->WaitForLine("crowded:")) << idle->Text() << job->Text();
  const std::string ask =
      "import http.client, sys\n"
      "kubelet = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=30)\n"
      "kubelet.request('GET', '/healthz')\n"
      "answer = kubelet.getresponse()\n"
      "print(answer.status, answer.read().decode())\n";
  for (int i = 0; i < 5; ++i) {
    Program probe(On(0, {"python3", "-c", ask, Host(), port}));
    EXPECT_EQ(probe.Wait(), 0) << probe.Text();
    EXPECT_THAT(probe.Text(), HasSubstr("200 alive"));
  }
  job->Signal(SIGTERM);
  EXPECT_EQ(job->Wait(), 128 + SIGTERM) << job->Text();
}

/// While the port was bound and not yet listened on, another user of the machine could take it. Port range
/// and port are settings of the machine, so the test uses a separate one.
TEST_F(StrangersTest, ListenerOnAllFreePortsDoesNotGetTheWorkersPort) {
  MakeNetwork();
  if (IsSkipped()) return;
  const std::vector<std::string> args = {"--nnodes", "2", "--port_range", "31000-31019",
                                         Script("run.sh", "echo the port is $MASTER_PORT\n")};
  const auto first = Job(Words({"--node_rank", "0"}, args));
  ASSERT_TRUE(first->WaitForLine("waiting for 1 more")) << first->Text();
  Program squatter(Toy(0, "squatter.py", {"31000", "31019"}));
  const auto took = squatter.WaitForLine("took ");
  ASSERT_TRUE(took) << squatter.Text();
  const std::vector<std::string> ports = absl::StrSplit(took->substr(took->find("took ") + 5), ' ');
  EXPECT_GT(ports.size(), 10u) << *took;
  const std::vector<std::string> there =
      Words({Mtrun(), "--rdzv_endpoint", Where(), "--rdzv_id", "job", "--node_rank", "1"}, args);
  Program second(On(1, there), Environment());
  for (Program* node : {first.get(), &second}) {
    const auto line = node->WaitForLine("the port is ");
    ASSERT_TRUE(line) << node->Text();
    EXPECT_THAT(ports, Not(Contains(line->substr(line->find("port is ") + 8))));
    EXPECT_EQ(node->Wait(), 0) << node->Text();
  }
  EXPECT_THAT(first->Text(), Not(HasSubstr("no store for the workers")));
  EXPECT_THAT(squatter.Text(), Not(HasSubstr("somebody came")));
}

}  // namespace
}  // namespace mtrun::e2e

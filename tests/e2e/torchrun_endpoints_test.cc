// What the node of the endpoint may be told about it, while the other node is told that node's address: on
// two simulated machines, each of which knows its own name only.
#include "tests/e2e/either.h"
#include "tests/support/network.h"

namespace mtrun::e2e {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Endpoints : public EitherTest {
 protected:
  void SetUp() override {
    EitherTest::SetUp();
    if (IsSkipped()) return;
    if (!HavePython()) GTEST_SKIP() << "there is no python3";
    auto network = support::Network::Make(2);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
    // torchrun's MASTER_ADDR would be a name, which the other machine does not know.
    if (torchrun()) local_ = {"--local_addr", network_->Address(0)};
  }
  void TearDown() override {
    network_.reset();
    EitherTest::TearDown();
  }

  /// Starts one of two nodes; its own name has the address `own` ("": none). Its worker prints "at ADDRESS
  /// PORT" and its variables for Gloo and NCCL; that of node 1 uses the store there.
  std::unique_ptr<Program> Node(int node, const std::vector<std::string>& args, const std::string& own,
                                const support::Overlay& overlay = {}) const {
    const std::string script = Script(
        "meet.sh", absl::StrCat("echo at $MASTER_ADDR $MASTER_PORT\n",
                                "echo gloo $GLOO_SOCKET_IFNAME nccl $NCCL_SOCKET_IFNAME\n", "exec python3 ",
                                support::TestFile("support/toys/store_client.py"), " late\n"));
    const std::string hosts = absl::StrCat(folder_.path(), "/hosts", node);
    support::WriteText(hosts, absl::StrCat("127.0.0.1 localhost\n", own,
                                           own.empty() ? "" : absl::StrCat(" node", node, "\n")));
    support::Overlay environment = Environment();
    for (const auto& [name, value] : overlay) environment[name] = value;
    const std::vector<std::string> mounted = {
        "unshare", "--mount", "sh", "-c", absl::StrCat("mount --bind ", hosts, " /etc/hosts && exec \"$@\""),
        "sh"};
    const std::vector<std::string> all = Words({"--nnodes", "2", "--node_rank", absl::StrCat(node)}, args);
    return std::make_unique<Program>(
        network_->On(node, Words(mounted, Command(Words(all, {"--no_python", script})))), environment);
  }
  std::unique_ptr<Program> Node(int node, const std::vector<std::string>& args,
                                const support::Overlay& overlay = {}) const {
    return Node(node, args, network_->Address(node), overlay);
  }
  std::vector<std::string> Dynamic(const std::string& endpoint, const std::string& conf = "") const {
    std::vector<std::string> args = {"--rdzv_backend",  "c10d",  "--rdzv_id", "job",
                                     "--rdzv_endpoint", endpoint};
    return conf.empty() ? args : Words(args, {"--rdzv_conf", conf});
  }
  std::vector<std::string> Elsewhere() const { return Dynamic(network_->Address(0) + ":29400"); }

  void ExpectToMeet(Program& first, Program& second) const {
    EXPECT_EQ(first.Wait(), 0) << first.Text() << second.Text();
    EXPECT_EQ(second.Wait(), 0) << second.Text();
    EXPECT_THAT(From(second.OutLines(), "LATE"), ElementsAre("LATE yes")) << second.Text();
    EXPECT_THAT(From(second.OutLines(), "at "), ElementsAre(HasSubstr("at " + network_->Address(0))))
        << second.Text();
  }
  void ExpectToMeet(const std::vector<std::string>& first, const std::vector<std::string>& second) const {
    const auto one = Node(0, Words(first, local_)), other = Node(1, second);
    ExpectToMeet(*one, *other);
  }

  std::unique_ptr<support::Network> network_;
  std::vector<std::string> local_;
};
MT_UNDER_EITHER(Endpoints);

TEST_P(Endpoints, StaticNodeZeroIsToldAnyAddressOfItsOwnOrNone) {
  const std::vector<std::string> second = {"--master_addr", network_->Address(0), "--master_port", "29500"};
  for (const std::vector<std::string>& first :
       {std::vector<std::string>{}, {"--master_addr", "localhost"}, {"--master_addr", "0.0.0.0"}}) {
    SCOPED_TRACE(first.empty() ? "none" : first.back());
    ExpectToMeet(Words(first, {"--master_port", "29500"}), second);
  }
}

TEST_P(Endpoints, HostIsToldLocalhost) { ExpectToMeet(Dynamic("localhost:29400"), Elsewhere()); }

TEST_P(Endpoints, HostIsToldLoopbackOrEveryAddressAndThatItHosts) {
  for (const char* endpoint : {"127.0.0.1:29400", "0.0.0.0:29400"}) {
    SCOPED_TRACE(endpoint);
    ExpectToMeet(Dynamic(endpoint, "is_host=1"), Elsewhere());
  }
}

/// What torchrun does not do.
class OwnEndpoints : public Endpoints {};
INSTANTIATE_TEST_SUITE_P(Mtrun, OwnEndpoints, testing::Values(Launcher::kMtrun));

/// torchrun 2.11 hosts there too, but cannot connect to its own host.
TEST_P(OwnEndpoints, HostIsToldItsOwnNameThatDoesNotResolve) {
  const auto one = Node(0, Words(Dynamic("node0:29400"), local_), "");
  const auto other = Node(1, Elsewhere());
  ExpectToMeet(*one, *other);
}

TEST_P(OwnEndpoints, EveryAddressNeedsNoFurtherSetting) {
  for (const char* endpoint : {"0.0.0.0:29400", "[::]:29400"}) {
    SCOPED_TRACE(endpoint);
    ExpectToMeet(Dynamic(endpoint), Elsewhere());
    ExpectToMeet(Words(Dynamic(endpoint), {"--local_addr", "auto"}), Elsewhere());
  }
}

TEST_P(OwnEndpoints, OnlyTheTokenOpensTheHostThatIsToldLocalhost) {
  const auto host = Node(0, Dynamic("localhost:29400"));
  ASSERT_TRUE(host->WaitForLine("waiting for 1 more")) << host->Text();
  const auto impostor = Node(1, Elsewhere(), {{kTokenVariable, MakeToken()}});
  EXPECT_EQ(impostor->Wait(), 1) << impostor->Text();
  EXPECT_THAT(impostor->Text(), HasSubstr("has another token"));
  const auto member = Node(1, Elsewhere());
  ExpectToMeet(*host, *member);
}

TEST_P(OwnEndpoints, HostWithoutATokenStaysOnLoopbackAndSaysSo) {
  const auto host = Node(0, Words(Dynamic("localhost:29400"), {"--insecure"}));
  ASSERT_TRUE(host->WaitForLine("waiting for 1 more")) << host->Text();
  EXPECT_THAT(host->Text(), HasSubstr("give an address of this machine"));
  const auto connect = [&](int node, const std::string& address) {
    return Program(network_->On(node, {"python3", "-c",
                                       absl::StrCat("import socket; socket.create_connection(('", address,
                                                    "', 29400), timeout=5)")}))
        .Wait();
  };
  EXPECT_EQ(connect(0, "127.0.0.1"), 0);
  EXPECT_NE(connect(0, network_->Address(0)), 0);
  EXPECT_NE(connect(1, network_->Address(0)), 0);
  host->Signal(SIGTERM);
  EXPECT_TRUE(host->Wait(kSoon).has_value()) << host->Text();
}

/// On Debian a machine's own name is 127.0.1.1 in its hosts file, and Gloo listens there. torchrun's job
/// fails.
TEST_P(OwnEndpoints, GlooGetsTheInterfaceIfTheOwnNameLeadsToLoopback) {
  const std::string address = network_->Address(0);
  for (const std::string& host : {address, std::string("node0"), std::string("localhost")}) {
    SCOPED_TRACE(host);
    const auto hidden = Node(0, Dynamic(host + ":29400"), "127.0.1.1"), open = Node(1, Elsewhere());
    ExpectToMeet(*hidden, *open);
    EXPECT_THAT(From(hidden->OutLines(), "gloo"), ElementsAre("gloo eth0 nccl"));
    EXPECT_THAT(From(open->OutLines(), "gloo"), ElementsAre("gloo nccl"));
    EXPECT_THAT(hidden->Text(), HasSubstr("Gloo gets the interface of " + address));
  }
  const auto set = Node(0, Elsewhere(), "127.0.1.1", {{"GLOO_SOCKET_IFNAME", "lo"}}),
             other = Node(1, Elsewhere());
  ExpectToMeet(*set, *other);
  EXPECT_THAT(From(set->OutLines(), "gloo"), ElementsAre("gloo lo nccl"));
}

/// The node that dies proves it: its presence port is where the others look.
TEST_P(OwnEndpoints, JobOutlivesTheHostThatIsToldLocalhost) {
  const std::string toy = support::BinaryFolder() + "/../tests/toy_worker";
  const auto node = [&](int number, const std::string& endpoint) {
    return std::make_unique<Program>(
        network_->On(number,
                     Command({"--nnodes", "1:2", "--node_rank", absl::StrCat(number), "--rdzv_endpoint",
                              endpoint, "--rdzv_conf", "last_call_timeout=20", toy, "cooperative"})),
        Environment());
  };
  const auto host = node(0, "localhost:29400"), other = node(1, network_->Address(0) + ":29400");
  ASSERT_TRUE(other->WaitForLine("in generation 1: rank", kSoon)) << host->Text() << other->Text();
  host->Signal(SIGKILL);
  EXPECT_TRUE(other->WaitForLine("in generation 2: rank 0 of 1", kSoon)) << other->Text();
  const auto again = node(0, "127.0.0.1:29400");
  EXPECT_TRUE(again->WaitForLine("in generation 3: rank", kSoon)) << again->Text() << other->Text();
}

}  // namespace
}  // namespace mtrun::e2e

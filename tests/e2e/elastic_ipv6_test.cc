// Nodes with IPv6 only, without even 127.0.0.1.
#include "tests/e2e/cluster.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Ipv6Test : public NetworkTest {
 protected:
  Ipv6Test() : NetworkTest(2, support::Network::Family::kSixAlone) {}

  std::unique_ptr<Program> On(int node, const std::vector<std::string>& args) const {
    return std::make_unique<Program>(network_->On(node, Command(args)), Environment());
  }
  std::string Environ() const {
    return Script(
        "environ.sh",
        "echo MASTER $MASTER_ADDR NCCL $NCCL_SOCKET_IFNAME GLOO $GLOO_SOCKET_IFNAME of $WORLD_SIZE\n");
  }
};

TEST_F(Ipv6Test, JobSurvivesTheDeathOfANodeAndThenTheHost) {
  const auto a = Start(0, "1:2", "", "20");
  auto b = Start(1, "1:2", "", "20");
  ASSERT_TRUE(Met(*a, 1, 2) && Met(*b, 1, 2)) << a->Text() << b->Text();
  b->Signal(SIGKILL);
  ASSERT_TRUE(Met(*a, 2, 1));
  b = Start(1, "1:2", "", "20");
  ASSERT_TRUE(Met(*a, 3, 2) && Met(*b, 3, 2)) << a->Text() << b->Text();
  // Its presence port refuses connections, and the other's service takes over.
  a->Signal(SIGKILL);
  ASSERT_TRUE(Met(*b, 4, 1));
  EXPECT_EQ(PidIn(*b, 4), PidIn(*b, 3));
  const auto again = Start(0, "1:2", "", "20");
  ASSERT_TRUE(Met(*again, 5, 2) && Met(*b, 5, 2)) << again->Text() << b->Text();
}

TEST_F(Ipv6Test, RanksReduceAcrossNodesAfterADeath) {
  toy_ = {"--max_restarts", "1", support::BinaryFolder() + "/../tests/toy_sums"};
  const auto a = Start(0, "2"), b = Start(1, "2");
  EXPECT_EQ(a->Wait(), 0) << a->Text();
  EXPECT_EQ(b->Wait(), 0) << b->Text();
  for (Program* node : {a.get(), b.get()})
    EXPECT_THAT(From(node->OutLines(), "SUM"), ElementsAre("SUM 3 in attempt 1")) << node->Text();
}

TEST_F(Ipv6Test, StandaloneServiceAndStoreAtTheMasterPortWork) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const auto service = StartService();
  toy_ = {support::TestFile("support/toys/store_client.py"), "late"};
  const auto a = Start(0, "2"), b = Start(1, "2");
  EXPECT_EQ(a->Wait(), 0) << a->Text();
  EXPECT_EQ(b->Wait(), 0) << b->Text();
  EXPECT_THAT(From(b->OutLines(), "LATE yes"), SizeIs(1)) << b->Text();
  Program status(network_->On(1, {Mtrun(), "--status", endpoints_[0], "--insecure"}), Environment());
  EXPECT_EQ(status.Wait(), 0) << status.Text();
  Program doctor(network_->On(1, {Mtrun(), "--doctor", endpoints_[0], "--insecure"}), Environment());
  doctor.Wait();
  EXPECT_THAT(doctor.Text(),
              AllOf(HasSubstr("[fd78::1]:29400 answers, round trip"), HasSubstr("from fd78::2 on eth0"),
                    HasSubstr("1500 bytes, and packets of that size arrive")));
}

TEST_F(Ipv6Test, InterfaceNetworkOrAutoGivesTheAddress) {
  const auto run = [&](const std::string& first, const std::string& second) {
    const std::vector<std::string> job = {"--nnodes", "2", "--rdzv_endpoint", endpoints_[0], "--insecure"};
    const auto a = On(0, Words(job, {"--node_rank", "0", "--local_addr", first, Environ()}));
    const auto b = On(1, Words(job, {"--node_rank", "1", "--local_addr", second, Environ()}));
    EXPECT_EQ(a->Wait(), 0) << a->Text();
    EXPECT_EQ(b->Wait(), 0) << b->Text();
    return Words(From(a->OutLines(), "MASTER"), From(b->OutLines(), "MASTER"));
  };
  const std::string expected = "MASTER fd78::1 NCCL =eth0 GLOO eth0 of 2";
  EXPECT_THAT(run("eth0", "fd78::/64"), AllOf(SizeIs(2), Each(expected)));
  EXPECT_THAT(run("auto", "auto"), AllOf(SizeIs(2), Each(expected)));
}

/// The endpoint is a link-local address, to which the interface has another name on each node.
class LinkLocalTest : public Ipv6Test {
 protected:
  void SetUp() override {
    Ipv6Test::SetUp();
    if (!network_) return;
    const auto run = [&](int node, const std::string& script) {
      Program program(network_->On(node, {"sh", "-c", script}));
      EXPECT_EQ(program.Wait(), 0) << program.Text();
    };
    run(0, "ip addr add fe80::78:1/64 dev eth0 nodad");
    run(1,
        "ip link set eth0 down && ip link set eth0 name lan0 && ip link set lan0 up && "
        "ip addr add fe80::78:2/64 dev lan0 nodad");
  }
  std::unique_ptr<Program> Meet(int node, const std::string& nodes,
                                const std::vector<std::string>& program) const {
    const std::string endpoint = node == 0 ? "[fe80::78:1%eth0]:29400" : "[fe80::78:1%lan0]:29400";
    return On(node, Words({"--nnodes", nodes, "--node_rank", absl::StrCat(node), "--rdzv_endpoint", endpoint,
                           "--rdzv_conf", "last_call_timeout=20"},
                          program));
  }
};

TEST_F(LinkLocalTest, EachNodeUsesItsOwnInterface) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const std::string script =
      Script("meet.sh", absl::StrCat("echo MASTER $MASTER_ADDR; exec python3 ",
                                     support::TestFile("support/toys/store_client.py"), " late\n"));
  const auto a = Meet(0, "2", {script}), b = Meet(1, "2", {script});
  EXPECT_EQ(a->Wait(), 0) << a->Text();
  EXPECT_EQ(b->Wait(), 0) << b->Text();
  EXPECT_THAT(From(b->OutLines(), "LATE"), ElementsAre("LATE yes")) << b->Text();
  EXPECT_THAT(From(a->OutLines(), "MASTER"), ElementsAre("MASTER fe80::78:1%eth0"));
  EXPECT_THAT(From(b->OutLines(), "MASTER"), ElementsAre("MASTER fe80::78:1%lan0"));
}

TEST_F(LinkLocalTest, JobOutlivesTheHost) {
  const auto a = Meet(0, "1:2", toy_), b = Meet(1, "1:2", toy_);
  ASSERT_TRUE(Met(*a, 1, 2) && Met(*b, 1, 2)) << a->Text() << b->Text();
  a->Signal(SIGKILL);
  ASSERT_TRUE(Met(*b, 2, 1));
  const auto again = Meet(0, "1:2", toy_);
  EXPECT_TRUE(Met(*again, 3, 2) && Met(*b, 3, 2)) << again->Text() << b->Text();
}

TEST_F(Ipv6Test, SingleNodeUsesItsLoopback) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const auto alone = On(0, {"--standalone", "--nproc_per_node", "2",
                            support::TestFile("support/toys/store_client.py"), "late"});
  EXPECT_EQ(alone->Wait(), 0) << alone->Text();
  const std::vector<std::string> job = {"--nnodes", "2", "--rdzv_endpoint", "[::1]:29400", Environ()};
  const auto a = On(0, job), b = On(0, job);
  EXPECT_EQ(a->Wait(), 0) << a->Text();
  EXPECT_EQ(b->Wait(), 0) << b->Text();
  EXPECT_THAT(From(a->OutLines(), "MASTER"), ElementsAre(HasSubstr("MASTER ::1 ")));
}

}  // namespace
}  // namespace mtrun::e2e

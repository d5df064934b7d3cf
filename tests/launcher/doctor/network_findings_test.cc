#include "launcher/doctor/network_findings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using ::testing::HasSubstr;

TEST(NetworkFindingsTest, Ports) {
  const PortFacts fine{.low = 32768, .high = 60999};
  EXPECT_EQ(JudgePorts(fine),
            (Findings{{Health::kOk, "ports", "29400 is free; the kernel gives out 28232 (32768-60999)"}}));
  PortFacts ports = fine;
  ports.endpoint_port = 0;
  EXPECT_EQ(JudgePorts(ports)[0].found, "the kernel gives out 28232 (32768-60999)");
  ports.endpoint_error = "port 29400 is in use";
  EXPECT_EQ(JudgePorts(ports)[0].health, Health::kWarn);
  ports.high = 32800;
  EXPECT_THAT(JudgePorts(ports)[0].mend, HasSubstr("ip_local_port_range"));
  ports.free_error = "listen on any free port: Cannot assign requested address";
  EXPECT_EQ(JudgePorts(ports)[0].health, Health::kFail);
}

TEST(NetworkFindingsTest, PortRangeIsTriedPortByPort) {
  PortFacts ports{.range = {5000, 5099}, .free_in_range = 98};
  EXPECT_EQ(JudgePorts(ports)[1], (Finding{Health::kOk, "--port_range", "98 of 100 are free in 5000-5099"}));
  ports.free_in_range = 5;
  EXPECT_EQ(JudgePorts(ports)[1].health, Health::kWarn);
  ports.free_in_range = 0;
  EXPECT_EQ(JudgePorts(ports)[1].health, Health::kFail);
  EXPECT_EQ(JudgePorts({.range = {5000, 5003}, .free_in_range = 4})[1].health, Health::kOk);
}

TEST(NetworkFindingsTest, Clock) {
  EXPECT_EQ(JudgeClock({.known = true, .synchronised = true, .most_wrong = std::chrono::milliseconds(12)}),
            (Finding{Health::kOk, "clock", "synchronised, to 12 ms"}));
  EXPECT_EQ(JudgeClock({.known = true}).health, Health::kWarn);
  EXPECT_EQ(JudgeClock({.known = true, .synchronised = true, .most_wrong = std::chrono::seconds(16)}).found,
            "it may be off by 16.0 s");
  EXPECT_EQ(JudgeClock({}).health, Health::kOk);
}

TEST(NetworkFindingsTest, Token) {
  EXPECT_EQ(JudgeToken({.from = "MTRUN_TOKEN"}, true), (Finding{Health::kOk, "token", "from MTRUN_TOKEN"}));
  EXPECT_EQ(JudgeToken({.insecure = true}, true).health, Health::kWarn);
  TokenFacts token{.from = "~/.mtrun/token", .status = absl::NotFoundError("no token")};
  EXPECT_EQ(JudgeToken(token, false).health, Health::kOk);
  EXPECT_THAT(JudgeToken(token, true).mend, HasSubstr("copy ~/.mtrun/token"));
  token.make_error = "make /h/.mtrun: Permission denied";
  EXPECT_EQ(JudgeToken(token, true).found,
            "none, and mtrun cannot create one: make /h/.mtrun: Permission denied");
  EXPECT_EQ(JudgeToken(token, true).health, Health::kFail);
  token.given = true;
  EXPECT_EQ(JudgeToken(token, false), (Finding{Health::kFail, "token", "no token"}));
  token = {.from = "~/.mtrun/token", .status = absl::PermissionDeniedError("run `chmod 600 f`")};
  EXPECT_EQ(JudgeToken(token, false), (Finding{Health::kFail, "token", "run `chmod 600 f`"}));
}

TEST(NetworkFindingsTest, LoopbackOnlyNameIsAWarningIfThereAreSeveralNodes) {
  const NameFacts debian{.own = "node1", .addresses = {"127.0.1.1"}};
  EXPECT_EQ(JudgeName(debian, false),
            (Finding{Health::kOk, "name", "node1 is 127.0.1.1, which no other machine can reach"}));
  EXPECT_EQ(JudgeName(debian, true).health, Health::kWarn);
  EXPECT_THAT(JudgeName(debian, true).mend, HasSubstr("need an entry in DNS"));
  EXPECT_EQ(JudgeName({.own = "node1"}, true).found, "this machine's own, \"node1\", does not resolve");
  EXPECT_EQ(JudgeName({.own = "node1", .addresses = {"127.0.1.1", "10.0.0.1"}}, true),
            (Finding{Health::kOk, "name", "node1 is 127.0.1.1, 10.0.0.1"}));
  EXPECT_THAT(JudgeName({"node1", {"10.0.0.1"}, std::chrono::seconds(5)}, false).mend,
              HasSubstr("resolv.conf"));
}

TEST(NetworkFindingsTest, AddressesForPeers) {
  NodeFacts node{.interfaces = {{"lo", "127.0.0.1", true, true}}};
  EXPECT_EQ(JudgeAddress(node), (Finding{Health::kOk, "interfaces", "lo (127.0.0.1)"}));
  node.several = true;
  EXPECT_EQ(JudgeAddress(node).health, Health::kFail);
  node.interfaces.push_back({"eth0", "10.0.0.2"});
  EXPECT_EQ(JudgeAddress(node).found, "lo (127.0.0.1), eth0 (10.0.0.2)");
  node.local_addr = "10.0.0.0/8", node.address = "10.0.0.2";
  EXPECT_EQ(JudgeAddress(node), (Finding{Health::kOk, "--local_addr", "10.0.0.0/8 is 10.0.0.2 on eth0"}));
  node.address = absl::InvalidArgumentError("--local_addr: what");
  EXPECT_EQ(JudgeAddress(node).health, Health::kFail);
}

TEST(NetworkFindingsTest, EachSubjectHasALine) {
  const Findings findings = JudgeNode({});
  std::vector<std::string> subjects;
  for (const Finding& finding : findings) subjects.push_back(finding.subject);
  EXPECT_THAT(subjects, ::testing::ElementsAre("ports", "clock", "token", "name", "interfaces"));
}

}  // namespace
}  // namespace mtrun::launcher

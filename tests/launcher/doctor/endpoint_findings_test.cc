#include "launcher/doctor/endpoint_findings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

EndpointFacts Answering() {
  EndpointFacts facts{.endpoint = {"node1", 29400}, .addresses = {"10.0.0.1"}, .answering = "10.0.0.1"};
  facts.round_trip = microseconds(210);
  facts.own_address = "10.0.0.2", facts.interface = "eth0", facts.interface_mtu = 1500;
  facts.mtu = {1500, MtuProof::kArrives};
  facts.service =
      ServiceFacts{.uptime = seconds(130), .jobs = 1, .tells_time = true, .clock_doubt = milliseconds(3)};
  facts.service->throughput = rendezvous::Throughput{64 << 20, milliseconds(100)};
  return facts;
}

TEST(EndpointFindingsTest, HealthyEndpointIsOk) {
  EXPECT_EQ(JudgeEndpoint(Answering()),
            (Findings{{Health::kOk, "endpoint",
                       "node1:29400 answers at 10.0.0.1, round trip 0.21 ms, from 10.0.0.2 on eth0"},
                      {Health::kOk, "service", "TLS, and the token matches, up for 2 min 10 s, 1 job"},
                      {Health::kOk, "its clock", "agrees within 3 ms"},
                      {Health::kOk, "path MTU", "1500 bytes, and packets of that size arrive"},
                      {Health::kOk, "bandwidth", "at least 5.37 Gbit/s to the service, by one connection"}}));
}

TEST(EndpointFindingsTest, UnreachableEndpointIsOneLine) {
  EndpointFacts facts{.endpoint = {"node1", 29400}};
  ASSERT_THAT(JudgeEndpoint(facts), SizeIs(1));
  EXPECT_EQ(JudgeEndpoint(facts)[0].found, "node1:29400: the name does not resolve");
  facts.addresses = {"10.0.0.1"}, facts.error = "connection refused";
  ASSERT_THAT(JudgeEndpoint(facts), SizeIs(1));
  EXPECT_EQ(JudgeEndpoint(facts)[0].health, Health::kFail);
  EXPECT_EQ(JudgeEndpoint(facts)[0].found, "nothing answers at node1:29400 (10.0.0.1): connection refused");
  EXPECT_THAT(JudgeEndpoint(facts)[0].mend, HasSubstr("start mtrdzv"));
  facts.error = "connection timed out";
  EXPECT_THAT(JudgeEndpoint(facts)[0].mend, HasSubstr("firewalls"));
  facts.here = true;
  EXPECT_EQ(JudgeEndpoint(facts)[0].health, Health::kOk);
  EXPECT_THAT(JudgeEndpoint(facts)[0].found, HasSubstr("an mtrun here would host it"));
}

TEST(EndpointFindingsTest, SlowOrPartlyUnreachableEndpointIsAWarning) {
  EndpointFacts facts = Answering();
  facts.failed = "fd00::1", facts.error = "connection timed out";
  EXPECT_EQ(JudgeEndpoint(facts)[0].health, Health::kWarn);
  EXPECT_THAT(JudgeEndpoint(facts)[0].found, HasSubstr("not at fd00::1 (connection timed out)"));
  facts = Answering();
  facts.resolving = seconds(5);
  EXPECT_THAT(JudgeEndpoint(facts)[0].found, HasSubstr("its name took 5.0 s"));
  facts = Answering();
  facts.round_trip = milliseconds(120);
  EXPECT_EQ(JudgeEndpoint(facts)[0].health, Health::kWarn);
}

TEST(EndpointFindingsTest, ServiceAnswersAreJudged) {
  EndpointFacts facts = Answering();
  facts.service->status =
      absl::UnauthenticatedError("the service at node1:29400 has another token: give ...");
  ASSERT_THAT(JudgeEndpoint(facts), SizeIs(3));
  EXPECT_EQ(JudgeEndpoint(facts)[1],
            (Finding{Health::kFail, "service", "the service at node1:29400 has another token: give ..."}));
  facts.service.reset();
  facts.not_asked = "there is no token to show";
  EXPECT_EQ(JudgeEndpoint(facts)[1],
            (Finding{Health::kWarn, "service", "not asked: there is no token to show"}));
  facts = Answering();
  facts.insecure = true;
  EXPECT_EQ(JudgeEndpoint(facts)[1].health, Health::kWarn);
}

TEST(EndpointFindingsTest, Clocks) {
  const auto judge = [](Duration ahead, bool tells = true) {
    EndpointFacts facts = Answering();
    facts.service->clock_ahead = ahead;
    facts.service->tells_time = tells;
    return JudgeEndpoint(facts)[2];
  };
  EXPECT_EQ(judge(milliseconds(2)).found, "agrees within 3 ms");
  EXPECT_EQ(judge(milliseconds(-40)), (Finding{Health::kOk, "its clock", "this machine is 40 ms behind"}));
  EXPECT_EQ(judge(seconds(90)).health, Health::kWarn);
  EXPECT_THAT(judge(seconds(90)).found, HasSubstr("1 min 30 s ahead"));
  EXPECT_THAT(judge(Duration::zero(), false).found, HasSubstr("older mtrun"));
}

TEST(EndpointFindingsTest, PathMtu) {
  const auto judge = [](PathMtu mtu, int interface_mtu = 1500) {
    EndpointFacts facts = Answering();
    facts.mtu = mtu;
    facts.interface_mtu = interface_mtu;
    return JudgeEndpoint(facts)[3];
  };
  EXPECT_EQ(judge({1500, MtuProof::kNone}).found,
            "1500 bytes as far as known: its host does not answer probes");
  EXPECT_EQ(judge({1400, MtuProof::kArrives}).health, Health::kWarn);
  EXPECT_THAT(judge({1500, MtuProof::kArrives}, 9000).found, HasSubstr("eth0 has 9000"));
  EXPECT_EQ(judge({9000, MtuProof::kLost}, 9000).health, Health::kFail);
  EXPECT_THAT(judge({9000, MtuProof::kLost}, 9000).mend, HasSubstr("give eth0 a smaller MTU"));
  EXPECT_EQ(judge({}).found, "not known");
}

TEST(EndpointFindingsTest, Bandwidth) {
  const auto judge = [](absl::StatusOr<rendezvous::Throughput> throughput) {
    EndpointFacts facts = Answering();
    facts.service->throughput = std::move(throughput);
    return JudgeEndpoint(facts)[4];
  };
  const Finding slow = judge(rendezvous::Throughput{11'500'000, seconds(1)});
  EXPECT_EQ(slow.health, Health::kWarn);
  EXPECT_EQ(slow.found, "at least 92 Mbit/s to the service, by one connection");
  EXPECT_THAT(slow.mend, HasSubstr("ethtool"));
  EXPECT_EQ(judge(absl::UnimplementedError("the service is of an older mtrun")),
            (Finding{Health::kOk, "bandwidth", "not measured: the service is of an older mtrun"}));
  EXPECT_EQ(judge(absl::ResourceExhaustedError("another client is measuring")).health, Health::kWarn);
  EXPECT_EQ(judge(rendezvous::Throughput{0, Duration::zero()}).health, Health::kWarn);
}

}  // namespace
}  // namespace mtrun::launcher

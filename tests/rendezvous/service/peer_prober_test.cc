#include "rendezvous/service/peer_prober.h"

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/presence_greeting.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/service/address_list.h"
#include "rendezvous/service/service.h"
#include "tests/rendezvous/service/talker.h"
#include "tests/rendezvous/session/test_agent.h"
#include "tests/support/no_threads.h"

namespace mtrun::rendezvous {
namespace {

using State = PeerService::State;

constexpr std::chrono::seconds kPeerPatience{30};

std::unique_ptr<Service> StartOnLoopback() {
  ServiceOptions options;
  options.listen = "127.0.0.1:0";
  options.insecure = true;
  auto service = Service::Start(options);
  EXPECT_TRUE(service.ok()) << service.status();
  return *std::move(service);
}

std::string EndpointOf(const Service& service) { return absl::StrCat("127.0.0.1:", service.port()); }

TEST(PeerProber, DistinguishesAListenerFromARefusal) {
  auto service = StartOnLoopback();
  const std::string endpoint = EndpointOf(*service);
  EXPECT_EQ(TryConnect(endpoint, kPeerPatience), Presence::kOpen);
  service.reset();
  EXPECT_EQ(TryConnect(endpoint, kPeerPatience), Presence::kRefused);
  EXPECT_EQ(TryConnect("no endpoint:", kPeerPatience), Presence::kSilent);
}

TEST(PeerProber, UnusableAddressIsIgnored) {
  auto service = StartOnLoopback();
  const AddressList here = Resolve(*ParseEndpoint(EndpointOf(*service)));
  addrinfo unusable = *here;
  unusable.ai_family = AF_MAX;
  const auto both = [&] {
    unusable.ai_next = nullptr;
    here->ai_next = &unusable;
    const Presence last = TryConnect(here.get(), kPeerPatience);
    here->ai_next = nullptr;
    unusable.ai_next = here.get();
    EXPECT_EQ(TryConnect(&unusable, kPeerPatience), last);
    return last;
  };
  EXPECT_EQ(both(), Presence::kOpen);
  service.reset();
  EXPECT_EQ(both(), Presence::kRefused);
  unusable.ai_next = nullptr;
  EXPECT_EQ(TryConnect(&unusable, kPeerPatience), Presence::kSilent) << "nobody has been asked";
}

TEST(PeerProber, DistinguishesItselfAnotherServiceAndADeadOne) {
  const auto self = StartOnLoopback(), other = StartOnLoopback();
  auto gone = StartOnLoopback();
  ProbeRequest request;
  request.job_id = "job";
  request.endpoints = {EndpointOf(*self), EndpointOf(*other), EndpointOf(*gone)};
  const Talker talker(PresenceGreeting(7), Talker::Then::kClose);
  request.members = {{"node1", {talker.endpoint(), 7}}, {"node2", {EndpointOf(*gone), 7}}};
  gone.reset();
  ProbeOptions options;
  options.service_id = self->id();
  options.insecure = true;
  options.timeout = kPeerPatience;
  const ProbeResult result = ProbePeers(request, options);
  ASSERT_EQ(result.peers.size(), 3u);
  EXPECT_EQ(result.peers[0].state, State::kSelf);
  EXPECT_EQ(result.peers[1].state, State::kWithoutJob);
  EXPECT_EQ(result.peers[2].state, State::kGone);
  EXPECT_THAT(result.alive, ::testing::ElementsAre("node1"));
  EXPECT_THAT(result.dead, ::testing::ElementsAre("node2"));
}

TEST(PeerProber, ProbesSequentiallyWithoutThreads) {
  auto one = StartOnLoopback(), two = StartOnLoopback();
  ProbeRequest request;
  request.endpoints = {EndpointOf(*one), EndpointOf(*two)};
  one.reset();
  two.reset();
  const support::NoThreads none;
  const ProbeResult result = ProbePeers(request, {.insecure = true});
  ASSERT_EQ(result.peers.size(), 2u);
  EXPECT_EQ(result.peers[0].state, State::kGone);
  EXPECT_EQ(result.peers[1].state, State::kGone);
}

/// Runs a job with one node until its end and until the node leaves. Returns the incarnation of the run.
uint64_t RunToItsEnd(const std::string& endpoint) {
  SessionOptions options;
  options.endpoint = endpoint;
  options.insecure = true;
  options.job.job_id = "job";
  TestAgent agent("node1", options);
  agent.Offer();
  const auto assigned = agent.Next<Assigned>();
  if (!assigned) return 0;
  agent.session().Send(WorkersFinished{assigned->assignment().generation, false});
  EXPECT_TRUE(agent.Next<JobEnded>());
  agent.session().Send(Leaving{"the job has ended"});
  agent.session().Flush(kTestPatience);
  return assigned->assignment().incarnation;
}

TEST(PeerProber, LearnsOfAnEndedRunWithoutNodes) {
  const auto self = StartOnLoopback(), other = StartOnLoopback();
  const uint64_t incarnation = RunToItsEnd(EndpointOf(*other));
  const auto status = ReadStatus(EndpointOf(*other), true, "", kPeerPatience);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_TRUE(status->jobs.empty());
  ProbeRequest request;
  request.job_id = "job";
  request.endpoints = {EndpointOf(*self), EndpointOf(*other)};
  ProbeOptions options;
  options.service_id = self->id();
  options.insecure = true;
  options.timeout = kPeerPatience;
  const ProbeResult result = ProbePeers(request, options);
  EXPECT_EQ(result.peers.at(1).state, State::kWithoutJob);
  EXPECT_THAT(result.peers.at(1).ended, ::testing::ElementsAre(EndedRun{incarnation, 1, true}));
  request.job_id = "another";
  EXPECT_TRUE(ProbePeers(request, options).peers.at(1).ended.empty());
}

}  // namespace
}  // namespace mtrun::rendezvous

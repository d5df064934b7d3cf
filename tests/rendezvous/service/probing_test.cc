// Probing of several jobs at once, some of which have hosts that do not answer.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rendezvous/service/service.h"
#include "tests/rendezvous/service/talker.h"
#include "tests/rendezvous/session/test_agent.h"
#include "tests/support/log_lines.h"
#include "tests/support/no_threads.h"
#include "tests/support/port.h"

namespace mtrun::rendezvous {
namespace {

std::unique_ptr<Service> StartAt(const std::string& endpoint) {
  ServiceOptions options;
  options.listen = endpoint;
  options.insecure = true;
  auto service = Service::Start(options);
  EXPECT_TRUE(service.ok()) << service.status();
  return *std::move(service);
}

class ProbingTest : public ::testing::Test {
 protected:
  std::unique_ptr<TestAgent> Join(const std::string& job_id, const std::string& node_id, int nodes) const {
    SessionOptions options;
    options.endpoints = endpoints_;
    options.insecure = true;
    options.job.job_id = job_id;
    options.job.endpoints = endpoints_;
    options.job.min_nodes = options.job.max_nodes = nodes;
    options.job.heartbeats_missed = 20;
    return std::make_unique<TestAgent>(node_id, options);
  }
  void OfferOf(TestAgent& agent) const {
    Offer offer;
    offer.node_id = offer.host = agent.node_id();
    offer.address = "127.0.0.1";
    offer.presence_port = silent_.port();
    offer.presence_id = 7;
    agent.session().Send(OfferSent{offer});
  }

  const std::vector<std::string> endpoints_ = {absl::StrCat("127.0.0.1:", support::FreePort()),
                                               absl::StrCat("127.0.0.1:", support::FreePort())};
  const Talker silent_{"", Talker::Then::kStay};
  const std::unique_ptr<Service> first_ = StartAt(endpoints_[0]), second_ = StartAt(endpoints_[1]);
};

TEST_F(ProbingTest, JobStartsWhileOthersWaitForSilentHosts) {
  std::vector<std::unique_ptr<TestAgent>> agents;
  for (const char* job_id : {"b", "c", "d"}) {
    agents.push_back(Join(job_id, "node1", 2));
    auto lost = Join(job_id, "node2", 2);
    OfferOf(*agents.back());
    OfferOf(*lost);
    ASSERT_TRUE(agents.back()->Next<Assigned>().has_value() && lost->Next<Assigned>().has_value()) << job_id;
    lost->Kill();
    ASSERT_TRUE(agents.back()->Next<GenerationDissolved>().has_value()) << job_id;
  }
  const TimePoint begin = MonotonicNow();
  const auto newcomer = Join("a", "node1", 1);
  OfferOf(*newcomer);
  ASSERT_TRUE(newcomer->Next<Assigned>().has_value())
      << "what was found out of its list is too old each time";
  EXPECT_LT(MonotonicNow() - begin, std::chrono::seconds(10));
}

TEST_F(ProbingTest, ServiceWithoutThreadsRetries) {
  // All other threads exist now.
  const auto agent = Join("a", "node1", 1);
  ASSERT_TRUE(agent->AwaitConnections(1));
  {
    const support::LogLines log;
    const support::NoThreads none;
    OfferOf(*agent);
    EXPECT_TRUE(agent->session().Flush(kTestPatience));
    EXPECT_TRUE(log.Await("no threads left to probe", kTestPatience));
  }
  EXPECT_TRUE(agent->Next<Assigned>().has_value());
}

}  // namespace
}  // namespace mtrun::rendezvous

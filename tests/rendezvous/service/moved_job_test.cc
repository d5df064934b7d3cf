// Questions to a service whose job has moved to another one.
#include <future>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/client/control_client.h"
#include "rendezvous/client/job_finder.h"
#include "rendezvous/client/log_client.h"
#include "rendezvous/client/watch_client.h"
#include "tests/rendezvous/session/session_fixture.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

/// The service of the fixture has the job; another one is at the job's endpoint.
class MovedJobTest : public SessionTest {
 protected:
  void Begin(const std::string& token_there = support::kToken) {
    StartService(/*insecure=*/false, token_there);
    ServiceOptions options;
    options.listen = "127.0.0.1:0";
    options.token = support::kToken;
    auto service = Service::Start(options);
    ASSERT_TRUE(service.ok()) << service.status();
    first_ = *std::move(service);
    agent_ = std::make_unique<TestAgent>("node1", SecureOptions(token_there));
    agent_->Offer();
    generation_ = agent_->NextGeneration();
  }
  std::string first() const { return absl::StrCat("127.0.0.1:", first_->port()); }
  absl::StatusOr<ServiceStatus> Status(const std::string& where, const PeerService& asks = {}) const {
    return ReadStatus(where, false, support::kToken, kTestPatience, asks.endpoint.empty() ? "" : "job", asks);
  }
  /// Does as the service of the job does after a takeover.
  void NameItself() const {
    PeerService self;
    self.endpoint = endpoint();
    self.generation = generation_;
    self.authority = true;
    ASSERT_TRUE(Status(first(), self).ok());
  }
  absl::StatusOr<std::string> Stop(const std::string& job_id) const {
    return ControlWith({first()}, false, support::kToken, {StopCall(), job_id, ThisProcess()});
  }
  absl::StatusOr<LogPart> Read(std::string* answered) const {
    return ReadLogWith({first()}, false, support::kToken, "job", {.rank = 0}, answered);
  }

  std::unique_ptr<Service> first_;
  std::unique_ptr<TestAgent> agent_;
  Generation generation_;
};

TEST_F(MovedJobTest, ServiceThatWasToldWhereTellsClients) {
  Begin();
  EXPECT_THAT(Status(first())->elsewhere, IsEmpty());
  EXPECT_THAT(std::string(Stop("job").status().message()), HasSubstr("does not have job \"job\""));
  NameItself();
  EXPECT_THAT(Status(first())->elsewhere, ElementsAre(Pair("job", endpoint())));
}

TEST_F(MovedJobTest, StatusAndPageFollow) {
  Begin();
  NameItself();
  JobFinder finder({first()}, [this](const std::string& where) { return Status(where); });
  const auto found = finder.Find();
  ASSERT_TRUE(found.ok() && !found->jobs.empty()) << found.status();
  EXPECT_EQ(found->jobs[0].settings.job_id, "job");
  EXPECT_THAT(found->elsewhere, IsEmpty());
  EXPECT_EQ(finder.where(), endpoint());
  WatchClient page(false, support::kToken);
  for (int i = 0; i < 2; ++i) {
    const auto seen = page.Ask({first()});
    ASSERT_TRUE(seen.ok() && !seen->status.jobs.empty()) << seen.status();
    EXPECT_EQ(seen->status.jobs[0].settings.job_id, "job");
  }
}

TEST_F(MovedJobTest, LogsFollow) {
  Begin();
  NameItself();
  std::string answered;
  auto reading = std::async(std::launch::async, [&] { return Read(&answered); });
  const auto asked = agent_->Next<LogRequest>();
  ASSERT_TRUE(asked.has_value());
  agent_->session().Send(LogPart{.id = asked->id, .attempt = "0", .out = "step 1\n"});
  const auto part = reading.get();
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->out, "step 1\n");
  EXPECT_EQ(answered, endpoint());
}

TEST_F(MovedJobTest, ControlCallsFollow) {
  Begin();
  NameItself();
  EXPECT_THAT(std::string(Stop("other").status().message()), HasSubstr("does not have job \"other\""));
  const auto done = Stop("");
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_TRUE(agent_->Next<ControlCall>().has_value());
}

TEST_F(MovedJobTest, SilentPlaceIsNamed) {
  Begin();
  NameItself();
  agent_->Kill();
  service_.reset();
  JobFinder finder({first()}, [this](const std::string& where) { return Status(where); });
  const auto found = finder.Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(StatusTable(*found), HasSubstr("job job has moved to " + endpoint()));
  const std::string refused(Stop("job").status().message());
  EXPECT_THAT(refused, HasSubstr(absl::StrCat("job \"job\" is at ", endpoint())));
  EXPECT_THAT(refused, HasSubstr(absl::StrCat("no rendezvous service answers at ", endpoint())));
}

/// Whatever is named: it must prove the token, as the first service does.
TEST_F(MovedJobTest, PlaceWithoutTheTokenLearnsNothing) {
  Begin(support::kOtherToken);
  NameItself();
  const auto done = Stop("job");
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(std::string(done.status().message()), HasSubstr("has another token"));
  EXPECT_FALSE(agent_->Has<ControlCall>());
}

}  // namespace
}  // namespace mtrun::rendezvous

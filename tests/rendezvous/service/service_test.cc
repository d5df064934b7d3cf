// The addresses on which the service listens, and that it does not listen there in plain text by mistake.
#include "rendezvous/service/service.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/authority/formation.h"
#include "rendezvous/client/control_client.h"
#include "rendezvous/client/end_watch.h"
#include "rendezvous/client/measure_client.h"
#include "rendezvous/client/status_client.h"
#include "rendezvous/client/transport.h"
#include "rendezvous/service/measure_call.h"
#include "rendezvous/service/state_folder.h"
#include "tests/rendezvous/session/session_fixture.h"
#include "tests/support/program.h"
#include "tests/support/token.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kPatience{30};

TEST(Service, ListensInPlainTextOnlyIfAllowed) {
  for (const char* listen : {"127.0.0.1:0", "[::]:0", "0.0.0.0:0"}) {
    ServiceOptions options;
    options.listen = listen;
    const auto refused = Service::Start(options);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << listen << ": " << refused.status();
    options.token = support::kToken;
    EXPECT_TRUE(Service::Start(options).ok()) << listen;
    options.token.clear();
    options.insecure = true;
    EXPECT_TRUE(Service::Start(options).ok()) << listen;
  }
}

TEST(Service, EvictionRequiresTheToken) {
  ServiceOptions options;
  options.listen = "127.0.0.1:0";
  options.token = support::kToken;
  const auto service = Service::Start(options);
  ASSERT_TRUE(service.ok()) << service.status();
  const auto why_not = [&](const std::string& token) {
    const support::TemporaryFolder folder;
    support::WriteText(folder.File("token"), token);
    std::filesystem::permissions(folder.File("token"), std::filesystem::perms::owner_read);
    const auto asked = AskToControl({absl::StrCat("127.0.0.1:", (*service)->port())},
                                    {.token = {.file = folder.File("token")}}, {.what = EvictCall{"node1"}});
    return std::string(asked.status().message());
  };
  EXPECT_THAT(why_not(support::kOtherToken), HasSubstr("has another token"));
  EXPECT_THAT(why_not(support::kToken), HasSubstr("the service has no job"));
}

/// Sends 4 MiB of noise `parts` times, in one call that waits for `go` before its end.
grpc::Status Send(wire::Rendezvous::Stub& stub, int parts, const std::function<void()>& go) {
  grpc::ClientContext context;
  wire::MeasureReply reply;
  const auto writer = stub.Measure(&context, &reply);
  wire::MeasurePart part;
  part.set_noise(std::string(4 << 20, 'x'));
  for (int i = 0; i < parts && writer->Write(part); ++i) continue;
  go();
  writer->WritesDone();
  return writer->Finish();
}

TEST(Service, AcceptsBytesOfAMeasurementUpToALimit) {
  ServiceOptions options;
  options.listen = "127.0.0.1:0";
  options.token = support::kToken;
  const auto service = Service::Start(options);
  ASSERT_TRUE(service.ok()) << service.status();
  const std::string endpoint = absl::StrCat("127.0.0.1:", (*service)->port());
  const auto measure = [&] { return MeasureThroughput(endpoint, false, support::kToken); };
  const auto measured = measure();
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_GT(measured->bytes, 0);
  EXPECT_LE(measured->bytes, kMaxMeasuredBytes);
  EXPECT_GT(measured->took, Duration::zero());

  const auto channel = MakeChannel(endpoint, false, support::kToken);
  ASSERT_TRUE(channel.ok()) << channel.status();
  const auto stub = wire::Rendezvous::NewStub(*channel);
  absl::Status second;
  EXPECT_TRUE(Send(*stub, 1, [&] { second = measure().status(); }).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(second)) << second;
  EXPECT_TRUE(measure().ok());
  EXPECT_EQ(Send(*stub, 17, [] {}).error_code(), grpc::StatusCode::OUT_OF_RANGE);
}

TEST(MeasureSlot, IsHeldUntilItIsReleasedOrExpires) {
  MeasureSlot slot;
  const TimePoint first(std::chrono::seconds(1)), second = first + std::chrono::seconds(1),
                                                  late = first + MeasureSlot::kLongest;
  EXPECT_TRUE(slot.Take(first));
  EXPECT_FALSE(slot.Take(second));
  slot.Give(second);  // it does not own the slot
  EXPECT_TRUE(slot.IsOf(first));
  EXPECT_TRUE(slot.Take(late));
  EXPECT_FALSE(slot.IsOf(first));
  slot.Give(late);
  EXPECT_TRUE(slot.Take(late));
}

TEST(Service, LocalhostIsServedOnEachOfItsAddresses) {
  ServiceOptions options;
  options.listen = "localhost:0";
  options.insecure = true;
  int port = 0;
  {
    const auto any = Service::Start(options);
    ASSERT_TRUE(any.ok()) << any.status();
    port = (*any)->port();
  }
  options.listen = absl::StrCat("LocalHost:", port);
  const auto service = Service::Start(options);
  ASSERT_TRUE(service.ok()) << service.status();
  EXPECT_EQ((*service)->port(), port);
  const auto id = ReadServiceId(absl::StrCat("127.0.0.1:", port), true, "", kPatience);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(*id, (*service)->id());
}

TEST(Service, StoresItsJobsUnderTheNameOfItsMachine) {
  const support::TemporaryFolder folder;
  ServiceOptions options;
  options.listen = "127.0.0.1:0";
  options.insecure = true;
  options.state_folder = folder.File("state");
  options.state_host = "login1";
  auto service = Service::Start(options);
  ASSERT_TRUE(service.ok()) << service.status();
  SessionOptions session;
  session.endpoint = absl::StrCat("127.0.0.1:", (*service)->port());
  session.insecure = true;
  session.job.job_id = "job";
  TestAgent agent("node1", session);
  agent.Offer();
  agent.NextGeneration();
  agent.session().Flush(kTestPatience);
  service->reset();
  EXPECT_TRUE(
      StateFolder(options.state_folder, StateKey(options.listen, options.state_host)).Load().contains("job"));
}

TEST(Service, StoresGenerationsThatItsMtrunLearnsElsewhere) {
  const support::TemporaryFolder folder;
  ServiceOptions options;
  options.listen = options.endpoint = "127.0.0.1:0";
  options.insecure = options.embedded = true;
  options.state_folder = folder.File("state");
  auto service = Service::Start(options);
  ASSERT_TRUE(service.ok()) << service.status();
  Offer offer;
  offer.node_id = offer.host = offer.address = "node2";
  (*service)->AdoptMembership("job", MakeAssignment({6, 66}, {offer}, 0, 0));
  service->reset();
  const auto kept = StateFolder(options.state_folder, options.endpoint).Load();
  ASSERT_TRUE(kept.contains("job"));
  EXPECT_EQ(kept.at("job").generation.generation, (Generation{6, 66}));
}

/// A service of one job, whose only node runs.
class ServiceOfOneTest : public SessionTest {
 protected:
  ServiceOfOneTest() {
    StartService();
    agent_.emplace("node1", Options(1, 1));
    agent_->Offer();
    generation_ = agent_->NextGeneration();
    end_.Follow(endpoint());
  }
  /// Returns whether a client that waits for the end has been answered.
  bool IsTold() const {
    const TimePoint late = MonotonicNow() + kTestPatience;
    while (end_.waits() && MonotonicNow() < late) std::this_thread::yield();
    return !end_.waits();
  }

  Generation generation_;
  EndWatch end_{/*insecure=*/true, ""};
  std::optional<TestAgent> agent_;
};

TEST_F(ServiceOfOneTest, WaitingCallerIsNotifiedOfTheEnd) {
  EXPECT_TRUE(end_.waits());
  agent_->session().Send(WorkersFinished{generation_, true});
  ASSERT_TRUE(agent_->Next<JobEnded>().has_value());
  ASSERT_TRUE(IsTold());
  EXPECT_TRUE(end_.Ended());
  service_.reset();
  EXPECT_TRUE(end_.Ended()) << "also when the service is gone";
}

TEST_F(ServiceOfOneTest, ServiceThatStopsFirstDoesNotEndTheJob) {
  agent_->Kill();
  service_.reset();
  ASSERT_TRUE(IsTold());
  EXPECT_FALSE(end_.Ended());
}

}  // namespace
}  // namespace mtrun::rendezvous

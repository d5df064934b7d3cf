// Agents that violate the protocol, at a real service: raw streams without the session client.
#include "rendezvous/service/registrar.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/client/control_client.h"
#include "rendezvous/service/service.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RegistrarTest : public ::testing::Test {
 protected:
  void Start(Duration hello_patience = std::chrono::seconds(10), size_t most_agents = 100,
             EvictHost evict_host = {}) {
    ServiceOptions options;
    options.evict_host = std::move(evict_host);
    options.listen = "127.0.0.1:0";
    options.insecure = true;
    options.hello_patience = hello_patience;
    options.most_agents = most_agents;
    auto service = Service::Start(options);
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    stub_ = wire::Rendezvous::NewStub(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", service_->port()), grpc::InsecureChannelCredentials(), arguments));
    stream_ = stub_->Session(&context_);
  }

  void SayHello() {
    HelloData hello;
    hello.node_id = "node1";
    hello.session_id = 1;
    wire::AgentMessage message;
    *message.mutable_hello() = EncodeHello(hello);
    ASSERT_TRUE(stream_->Write(message));
  }
  bool Say(const AgentEvent& event) {
    wire::AgentMessage message;
    *message.mutable_event() = EncodeAgentEvent(++sequence_, AgentSaid{event, {}});
    return stream_->Write(message);
  }
  /// Joins as node1 and runs alone.
  Generation RunGeneration() {
    SayHello();
    Offer offer;
    offer.node_id = offer.host = "node1";
    EXPECT_TRUE(Say(OfferSent{offer}));
    std::optional<ServiceEvent> event = Next();
    while (event && !std::holds_alternative<Assigned>(*event)) event = Next();
    EXPECT_TRUE(event.has_value());
    return event ? std::get<Assigned>(*event).assignment().generation : Generation{};
  }
  absl::StatusOr<std::string> Evict(const std::string& node, const std::string& job_id = "") const {
    return AskToControl({absl::StrCat("127.0.0.1:", service_->port())}, {.insecure = true},
                        {EvictCall{node}, job_id});
  }
  /// Returns the next event, skipping acknowledgements.
  std::optional<ServiceEvent> Next() {
    wire::ServiceMessage message;
    while (stream_->Read(&message)) {
      if (message.has_event()) return DecodeServiceEvent(message.event()).value();
    }
    return std::nullopt;
  }
  /// Returns how the service ended the stream.
  grpc::Status End() {
    while (Next()) {
    }
    return stream_->Finish();
  }

  std::unique_ptr<Service> service_;
  std::unique_ptr<wire::Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<wire::AgentMessage, wire::ServiceMessage>> stream_;
  uint64_t sequence_ = 0;
};

TEST_F(RegistrarTest, StreamWithoutHelloIsClosed) {
  Start(std::chrono::milliseconds(50));
  const grpc::Status status = End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("Hello"));
}

TEST_F(RegistrarTest, OtherProtocolVersionIsRefusedWithBothNumbers) {
  Start();
  wire::AgentMessage message;
  message.mutable_hello()->set_protocol(kProtocolVersion - 1);
  ASSERT_TRUE(stream_->Write(message));
  const grpc::Status status = End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);  // final for an agent
  EXPECT_EQ(
      status.error_message(),
      "this agent speaks protocol 2, the service protocol 3; run the same version of mtrun on every node");
}

TEST_F(RegistrarTest, MessageBeforeHelloIsRefused) {
  Start();
  ASSERT_TRUE(Say(Leaving{"why"}));
  EXPECT_EQ(End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

/// Informational events: a program can report any numbers, and a driver as well.
TEST_F(RegistrarTest, MalformedEventForPeopleEndsNoNode) {
  Start();
  const Generation generation = RunGeneration();
  for (int i = 0; i < 2; ++i) {
    wire::AgentMessage steps, use, log;
    *steps.mutable_event() = EncodeAgentEvent(++sequence_, AgentSaid{StepsCommitted{generation, -1}, {}});
    use.mutable_event()->set_sequence(++sequence_);
    use.mutable_event()->mutable_use()->set_cpus(-1);
    *log.mutable_event() = EncodeAgentEvent(++sequence_, AgentSaid{LogPart{}, {}});
    for (const wire::AgentMessage& message : {steps, use, log}) ASSERT_TRUE(stream_->Write(message));
  }
  ASSERT_TRUE(Say(WorkersFinished{generation, false}));
  std::optional<ServiceEvent> event = Next();
  while (event && !std::holds_alternative<JobEnded>(*event) && !std::holds_alternative<Refused>(*event))
    event = Next();
  ASSERT_TRUE(event.has_value());
  ASSERT_TRUE(std::holds_alternative<JobEnded>(*event));
  EXPECT_TRUE(std::get<JobEnded>(*event).outcome.success);
}

TEST_F(RegistrarTest, SecondHelloEndsTheStream) {
  Start();
  SayHello();
  SayHello();
  EXPECT_THAT(End().error_message(), HasSubstr("second Hello"));
}

TEST_F(RegistrarTest, LostWelcomeIsNotTreatedAsReceived) {
  // A service that has forgotten the agent welcomes it as a new one; that Welcome never arrives.
  Start();
  HelloData hello;
  hello.node_id = "node1";
  hello.session_id = 1;
  hello.service_id = service_->id();
  wire::AgentMessage message;
  *message.mutable_hello() = EncodeHello(hello);
  wire::ServiceMessage welcome;
  ASSERT_TRUE(stream_->Write(message) && stream_->Read(&welcome));
  EXPECT_FALSE(welcome.welcome().resumed());
  grpc::ClientContext second_context;
  const auto second = stub_->Session(&second_context);
  ASSERT_TRUE(second->Write(message) && second->Read(&welcome));
  EXPECT_FALSE(welcome.welcome().resumed());  // its numbers are still the old ones
  hello.service_id = welcome.welcome().service_id();
  *message.mutable_hello() = EncodeHello(hello);
  grpc::ClientContext third_context;
  const auto third = stub_->Session(&third_context);
  ASSERT_TRUE(third->Write(message) && third->Read(&welcome));
  EXPECT_TRUE(welcome.welcome().resumed());
}

// The agent gave up an attempt while a cable was out, and was welcomed in another one; then the first one's
// Hello arrives. It must not end the stream or change the numbers of the session.
TEST_F(RegistrarTest, OutdatedHelloChangesNothing) {
  Start();
  HelloData hello;
  hello.node_id = "node1";
  hello.session_id = 1;
  hello.service_id = 99;  // from the service that it has left
  hello.attempt = 2;
  wire::AgentMessage message;
  *message.mutable_hello() = EncodeHello(hello);
  wire::ServiceMessage welcome;
  ASSERT_TRUE(stream_->Write(message) && stream_->Read(&welcome));
  ASSERT_TRUE(welcome.has_welcome());
  Offer offer;
  offer.node_id = offer.host = "node1";
  ASSERT_TRUE(Say(OfferSent{offer}));
  std::optional<ServiceEvent> event = Next();
  while (event && !std::holds_alternative<Assigned>(*event)) event = Next();
  ASSERT_TRUE(event.has_value());

  // A repeated attempt cannot come from a live agent: in plain text anyone on the network can replay it.
  for (const uint64_t attempt : {1, 2}) {
    hello.attempt = attempt;
    *message.mutable_hello() = EncodeHello(hello);
    grpc::ClientContext late_context;
    const auto late = stub_->Session(&late_context);
    ASSERT_TRUE(late->Write(message));
    wire::ServiceMessage none;
    while (late->Read(&none)) EXPECT_FALSE(none.has_welcome()) << attempt;
    EXPECT_EQ(late->Finish().error_code(), grpc::StatusCode::ABORTED);
  }

  const Generation generation = std::get<Assigned>(*event).assignment().generation;
  ASSERT_TRUE(Say(WorkersFinished{generation, true}));
  event = Next();
  while (event && !std::holds_alternative<JobEnded>(*event)) event = Next();
  ASSERT_TRUE(event.has_value()) << "the stream has ended";
  EXPECT_TRUE(std::get<JobEnded>(*event).outcome.success);
}

TEST_F(RegistrarTest, FullServiceReadmitsItsOwnAgents) {
  Start(std::chrono::seconds(10), /*most_agents=*/1);
  SayHello();
  wire::ServiceMessage welcome;
  ASSERT_TRUE(stream_->Read(&welcome));
  const auto open = [&](const std::string& node_id) {
    HelloData hello;
    hello.node_id = node_id;
    hello.session_id = 1;
    hello.attempt = 2;
    wire::AgentMessage message;
    *message.mutable_hello() = EncodeHello(hello);
    grpc::ClientContext context;
    const auto stream = stub_->Session(&context);
    EXPECT_TRUE(stream->Write(message));
    if (stream->Read(&welcome)) return grpc::StatusCode::OK;
    return stream->Finish().error_code();
  };
  EXPECT_EQ(open("node2"), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(open("node1"), grpc::StatusCode::OK) << "its connection broke, and it is here again";
  EXPECT_TRUE(welcome.welcome().resumed());
}

TEST_F(RegistrarTest, ReopenedStreamReceivesAllPendingEvents) {
  Start();
  RunGeneration();
  HelloData hello;
  hello.node_id = "node1";
  hello.session_id = 1;
  hello.attempt = 2;
  wire::AgentMessage message;
  *message.mutable_hello() = EncodeHello(hello);
  for (const char* question : {"one", "two"}) {
    ASSERT_TRUE(Say(StoreRead{{}, 1, {question}, false}));
    ASSERT_TRUE(Next().has_value());
  }
  grpc::ClientContext context;
  const auto second = stub_->Session(&context);
  ASSERT_TRUE(second->Write(message));
  std::vector<uint64_t> numbers;
  wire::ServiceMessage heard;
  while (numbers.size() < 3 && second->Read(&heard)) {
    if (heard.has_event()) numbers.push_back(heard.event().sequence());
  }
  EXPECT_THAT(numbers, ::testing::ElementsAre(1, 2, 3)) << "nothing was acknowledged";
}

TEST_F(RegistrarTest, EveryAnswerIsSentHoweverWritesEnd) {
  Start();
  const Generation generation = RunGeneration();
  constexpr int64_t kQuestions = 5000;
  std::thread asks([&] {
    for (int64_t i = 1; i <= kQuestions; ++i) Say(StoreRead{generation, i, {"key"}, false});
  });
  int64_t answers = 0;
  for (std::optional<ServiceEvent> event; answers < kQuestions && (event = Next());)
    answers += std::holds_alternative<StoreReply>(*event) ? 1 : 0;
  asks.join();
  EXPECT_EQ(answers, kQuestions);
}

TEST_F(RegistrarTest, EventsOutOfOrderEndTheStream) {
  Start();
  SayHello();
  sequence_ = 7;
  ASSERT_TRUE(Say(Leaving{"why"}));
  EXPECT_THAT(End().error_message(), HasSubstr("event 8 came after 0"));
}

TEST_F(RegistrarTest, AgentThatNeverAcknowledgesIsDropped) {
  Start();
  const Generation generation = RunGeneration();
  ASSERT_TRUE(Say(NodeUse{}));
  const auto watched = [&] {
    grpc::ClientContext context;
    wire::WatchReply reply;
    EXPECT_TRUE(stub_->Watch(&context, {}, &reply).ok());
    return reply.nodes_size();
  };
  const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
  while (watched() == 0 && MonotonicNow() < give_up) {
  }
  ASSERT_TRUE(Say(StoreSet{generation, "key", std::string(KeyValueStore::kMaxValueBytes, 'x')}));
  const size_t answers = Registrar::kMaxUnacknowledgedBytes / KeyValueStore::kMaxValueBytes + 1;
  for (size_t i = 0; i < answers; ++i) {
    if (!Say(StoreRead{generation, static_cast<int64_t>(i), {"key"}, false})) break;
  }
  // Either its own status or, if the agent did not even read, that of a cancelled call.
  EXPECT_THAT(End().error_code(),
              ::testing::AnyOf(grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::CANCELLED));
  EXPECT_EQ(watched(), 0);
}

TEST_F(RegistrarTest, OperatorEvictsADisconnectedNode) {
  Start();
  EXPECT_THAT(std::string(Evict("node1").status().message()), HasSubstr("the service has no job"));
  RunGeneration();
  EXPECT_THAT(std::string(Evict("node1").status().message()), HasSubstr("node1 is connected"));
  EXPECT_THAT(std::string(Evict("node2").status().message()), HasSubstr("is no member of generation 1"));
  EXPECT_THAT(std::string(Evict("node1", "other").status().message()), HasSubstr("job \"other\""));
  context_.TryCancel();
  const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
  absl::StatusOr<std::string> evicted = Evict("node1");  // the service notices the end of the stream itself
  while (!evicted.ok() && MonotonicNow() < give_up) evicted = Evict("node1");
  ASSERT_TRUE(evicted.ok()) << evicted.status();
  EXPECT_THAT(*evicted, HasSubstr("node1 is evicted from generation 1 of job \""));
  EXPECT_THAT(std::string(Evict("node1").status().message()), HasSubstr("the service has no job"));
}

// A member that was told a moment before may have brought its job here.
TEST_F(RegistrarTest, HostingAgentIsNotifiedOfAnEvictionFromAPresentJob) {
  Mutex mu;  // for the service's thread, which logs it before Evict returns
  std::vector<std::string> heard;
  const auto told = [&] {
    const MutexLock lock(mu);
    return heard;
  };
  Start(std::chrono::seconds(10), 100, [&](const std::string&, const std::string& node) {
    const MutexLock lock(mu);
    heard.push_back(node);
    return absl::FailedPreconditionError("it may as well be another host that this agent waits for");
  });
  RunGeneration();
  EXPECT_FALSE(Evict("node1").ok());
  EXPECT_THAT(told(), IsEmpty()) << "node1 is connected";
  context_.TryCancel();
  const TimePoint give_up = MonotonicNow() + std::chrono::seconds(30);
  absl::StatusOr<std::string> evicted = Evict("node1");
  while (!evicted.ok() && MonotonicNow() < give_up) evicted = Evict("node1");
  ASSERT_TRUE(evicted.ok()) << evicted.status();
  EXPECT_THAT(told(), ElementsAre("node1"));
}

TEST_F(RegistrarTest, HostingAgentDecidesAnEvictionBeforeAGenerationIsKnown) {
  Start(std::chrono::seconds(10), 100, [&](const std::string&, const std::string&) {
    return Eviction{"default", "node0-1-ab", "node0", {4, 77}};
  });
  SayHello();
  wire::ServiceMessage welcome;
  ASSERT_TRUE(stream_->Read(&welcome));
  const absl::StatusOr<std::string> evicted = Evict("node0");
  ASSERT_TRUE(evicted.ok()) << evicted.status();
  EXPECT_THAT(*evicted, HasSubstr("node0 is evicted from generation 4 of job"));
}

}  // namespace
}  // namespace mtrun::rendezvous

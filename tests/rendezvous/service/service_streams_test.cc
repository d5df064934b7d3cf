// Streams that show the token and misuse it: they do not read, send too much, or resend. All of that reaches
// the service's messages; a job of four nodes beside them loses neither a stream nor its generation.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/tls_identity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/job/key_value_store.h"
#include "rendezvous/service/registrar.h"
#include "rendezvous/wire/codec.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"
#include "tests/rendezvous/session/session_fixture.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

/// An agent's stream without any protocol logic, over its own connection. It sends any message, however
/// large.
class LooseStream {
 public:
  explicit LooseStream(const std::string& endpoint) {
    const auto identity = DeriveIdentity(support::kToken);
    EXPECT_TRUE(identity.ok()) << identity.status();
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = identity->ca_certificate;
    options.pem_cert_chain = identity->certificate;
    options.pem_private_key = identity->private_key;
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride(kTlsName);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    stub_ = wire::Rendezvous::NewStub(
        grpc::CreateCustomChannel(endpoint, grpc::SslCredentials(options), arguments));
    stream_ = stub_->Session(&context_);
  }
  ~LooseStream() { context_.TryCancel(); }
  LooseStream(const LooseStream&) = delete;

  static wire::AgentMessage HelloOf(const std::string& name,
                                    Duration heartbeat = JobSettings().heartbeat_interval) {
    HelloData hello;
    hello.opened.settings.heartbeat_interval = heartbeat;
    hello.node_id = name;
    hello.session_id = 1;
    hello.opened.settings.job_id = name;
    wire::AgentMessage message;
    *message.mutable_hello() = EncodeHello(hello);
    return message;
  }
  static wire::AgentMessage Event(uint64_t sequence, const AgentEvent& event) {
    wire::AgentMessage message;
    *message.mutable_event() = EncodeAgentEvent(sequence, AgentSaid{event, {}});
    return message;
  }
  static wire::AgentMessage OfferOf(const std::string& name) {
    Offer offer;
    offer.node_id = offer.host = name;
    return Event(1, OfferSent{offer});
  }

  bool Say(const wire::AgentMessage& message) { return stream_->Write(message); }
  /// Returns the next event of type T and drops those before it; nothing if the stream ends first.
  template <typename T>
  std::optional<T> Next() {
    wire::ServiceMessage message;
    while (stream_->Read(&message)) {
      if (message.has_welcome()) resumed_ = message.welcome().resumed();
      if (!message.has_event()) continue;
      const ServiceEvent event = DecodeServiceEvent(message.event()).value();
      if (const T* found = std::get_if<T>(&event)) return *found;
    }
    return std::nullopt;
  }
  /// Runs alone in a job of that name. Returns the generation.
  Generation Begin(const std::string& name, Duration heartbeat = JobSettings().heartbeat_interval) {
    EXPECT_TRUE(Say(HelloOf(name, heartbeat)) && Say(OfferOf(name)));
    const auto assigned = Next<Assigned>();
    EXPECT_TRUE(assigned.has_value()) << name;
    return assigned ? assigned->assignment().generation : Generation{};
  }
  bool resumed() const { return resumed_; }
  /// Returns how the service ended it.
  grpc::StatusCode End() {
    while (Next<Assigned>()) continue;
    return stream_->Finish().error_code();
  }

 private:
  std::unique_ptr<wire::Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<wire::AgentMessage, wire::ServiceMessage>> stream_;
  bool resumed_ = false;
};

class ServiceStreamsTest : public SessionTest {
 protected:
  ServiceStreamsTest() {
    log::SetSink([this](std::string line) {
      const MutexLock lock(mutex_);
      lines_ += line;
      changed_.NotifyAll();
    });
    StartService(/*insecure=*/false);
    SessionOptions options = Options(kNodes, kNodes);
    options.insecure = false;
    options.token = support::kToken;
    for (int i = 0; i < kNodes; ++i) {
      nodes_.push_back(std::make_unique<TestAgent>(absl::StrCat("node", i), options));
      nodes_.back()->Offer();
    }
    for (const auto& node : nodes_) generation_ = node->NextGeneration();
  }
  ~ServiceStreamsTest() override {
    nodes_.clear();
    service_.reset();
    log::SetSink(nullptr);
  }

  bool AwaitLine(const std::string& text) {
    const TimePoint give_up = MonotonicNow() + kTestPatience;
    const MutexLock lock(mutex_);
    while (lines_.find(text) == std::string::npos) {
      if (!changed_.WaitUntil(mutex_, give_up)) return false;
    }
    return true;
  }
  /// Each node gets an answer, finishes, and learns of the end of the job, which is impossible if the
  /// generation has ended.
  void ExpectTheJobToGoOnToItsEnd() {
    for (const auto& node : nodes_) node->session().Send(StoreSet{generation_, node->node_id(), "here"});
    for (const auto& node : nodes_) {
      node->session().Send(StoreRead{generation_, 1, {"node0", "node1", "node2", "node3"}, true});
      const auto reply = node->Next<StoreReply>();
      ASSERT_TRUE(reply.has_value());
      EXPECT_EQ(reply->values.size(), size_t{kNodes});
    }
    for (const auto& node : nodes_) node->session().Send(WorkersFinished{generation_, true});
    for (const auto& node : nodes_) {
      const auto ended = node->Next<JobEnded>();
      ASSERT_TRUE(ended.has_value());
      EXPECT_TRUE(ended->outcome.success);
      EXPECT_FALSE(node->HasBeenDisconnected());
    }
    EXPECT_EQ(generation_.number, 1u);
  }

  static constexpr int kNodes = 4;
  std::vector<std::unique_ptr<TestAgent>> nodes_;
  Generation generation_;

 private:
  Mutex mutex_;
  Condition changed_;
  std::string lines_ ABSL_GUARDED_BY(mutex_);
};

/// These streams request far more than fits between them and the service, and read nothing of it.
TEST_F(ServiceStreamsTest, StreamThatDoesNotReadIsDroppedWithoutDelayingOthers) {
  const auto ask = [](LooseStream& stream, const Generation& generation, size_t answers) {
    const std::string value(KeyValueStore::kMaxValueBytes, 'x');
    bool taken = stream.Say(LooseStream::Event(2, StoreSet{generation, "key", value}));
    for (size_t i = 0; i < answers && taken; ++i)
      taken = stream.Say(
          LooseStream::Event(3 + i, StoreRead{generation, static_cast<int64_t>(i), {"key"}, false}));
    return taken;
  };
  std::vector<std::unique_ptr<LooseStream>> unread;
  for (int i = 0; i < 20; ++i) {
    unread.push_back(std::make_unique<LooseStream>(endpoint()));
    const Generation generation = unread.back()->Begin(absl::StrCat("unread", i));
    ASSERT_TRUE(ask(*unread.back(), generation, 4)) << i;
  }
  LooseStream greedy(endpoint());
  ask(greedy, greedy.Begin("greedy"), Registrar::kMaxUnacknowledgedBytes / KeyValueStore::kMaxValueBytes + 1);
  EXPECT_TRUE(AwaitLine("greedy: it does not acknowledge its messages"));
  ExpectTheJobToGoOnToItsEnd();
}

TEST_F(ServiceStreamsTest, OversizedMessageEndsOnlyItsStream) {
  for (int i = 0; i < 10; ++i) {
    LooseStream large(endpoint());
    // It sends no heartbeats, and large messages take long on a busy machine.
    const Generation generation = large.Begin(absl::StrCat("large", i), std::chrono::seconds(60));
    // The larger value just fits into a message, but is too large for a value.
    const bool fits = i % 2 == 0;
    const std::string value(fits ? kMaxMessageBytes - 64 : kMaxMessageBytes + 1, 'x');
    ASSERT_TRUE(large.Say(LooseStream::Event(2, StoreSet{generation, "key", value})));
    if (fits) {
      ASSERT_TRUE(large.Say(LooseStream::Event(3, StoreRead{generation, 1, {"key"}, true})));
      const auto reply = large.Next<StoreReply>();
      ASSERT_TRUE(reply.has_value());
      EXPECT_THAT(reply->error, HasSubstr("bytes, at most"));
    } else {
      EXPECT_EQ(large.End(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    }
  }
  ExpectTheJobToGoOnToItsEnd();
}

TEST_F(ServiceStreamsTest, RepeatedMessagesCountOnce) {
  std::vector<wire::AgentMessage> said = {LooseStream::HelloOf("again"), LooseStream::OfferOf("again")};
  std::vector<std::unique_ptr<LooseStream>> streams;
  streams.push_back(std::make_unique<LooseStream>(endpoint()));
  const Generation generation = streams.back()->Begin("again");
  said.push_back(LooseStream::Event(2, StoreSet{generation, "key", "before"}));
  ASSERT_TRUE(streams.back()->Say(said.back()));
  ASSERT_TRUE(streams.back()->Say(LooseStream::Event(3, StoreSet{generation, "key", "after"})));
  ASSERT_TRUE(streams.back()->Say(LooseStream::Event(4, StoreRead{generation, 1, {"key"}, false})));
  ASSERT_TRUE(streams.back()->Next<StoreReply>().has_value());  // all of it has been processed
  for (int i = 0; i < 50; ++i) {
    streams.push_back(std::make_unique<LooseStream>(endpoint()));
    for (const wire::AgentMessage& message : said) ASSERT_TRUE(streams.back()->Say(message));
    const auto assigned = streams.back()->Next<Assigned>();
    ASSERT_TRUE(assigned.has_value());
    EXPECT_EQ(assigned->assignment().generation, generation);
    EXPECT_TRUE(streams.back()->resumed());
  }
  ASSERT_TRUE(streams.back()->Say(LooseStream::Event(5, StoreRead{generation, 2, {"key"}, false})));
  auto reply = streams.back()->Next<StoreReply>();
  while (reply && reply->id != 2) reply = streams.back()->Next<StoreReply>();
  ASSERT_TRUE(reply.has_value()) << "the offer that was sent again has ended the generation";
  EXPECT_EQ(reply->values["key"], "after");
  ExpectTheJobToGoOnToItsEnd();
}

}  // namespace
}  // namespace mtrun::rendezvous

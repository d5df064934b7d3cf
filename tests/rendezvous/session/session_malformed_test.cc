// A service whose events cannot be decoded.
#include <grpcpp/grpcpp.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/cause.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"
#include "tests/rendezvous/session/test_agent.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Answers a Hello with a Welcome and two events: news for people, then `last`.
class MalformedService final : public wire::Rendezvous::Service {
 public:
  explicit MalformedService(wire::ServiceEvent last, int presence_port = 0)
      : last_(std::move(last)), presence_port_(presence_port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~MalformedService() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  grpc::Status Session(grpc::ServerContext*,
                       grpc::ServerReaderWriter<wire::ServiceMessage, wire::AgentMessage>* stream) override {
    wire::AgentMessage said;
    if (!stream->Read(&said)) return grpc::Status::OK;
    wire::ServiceMessage answer;
    answer.mutable_welcome()->set_service_id(1);
    answer.mutable_welcome()->set_presence_port(presence_port_);
    answer.mutable_welcome()->set_presence_id(7);
    stream->Write(answer);
    wire::ServiceMessage news;
    news.mutable_event()->set_sequence(1);  // of unknown kind
    stream->Write(news);
    wire::ServiceMessage last;
    *last.mutable_event() = last_;
    last.mutable_event()->set_sequence(2);
    stream->Write(last);
    while (stream->Read(&said)) {
    }
    return grpc::Status::OK;
  }

  const wire::ServiceEvent last_;
  const int presence_port_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(SessionMalformed, AnAssignmentThatCannotBeReadEndsTheAgentInWords) {
  wire::ServiceEvent assigned;
  assigned.set_assigned("no message");
  MalformedService service(assigned);
  SessionOptions options;
  options.endpoints = options.job.endpoints = {service.endpoint()};
  options.insecure = true;
  TestAgent agent("node1", options);
  const auto refused = agent.Next<Refused>();
  ASSERT_TRUE(refused.has_value());
  EXPECT_THAT(Describe(refused->cause),
              AllOf(HasSubstr("sent a malformed event"), HasSubstr(service.endpoint())));
}

TEST(SessionMalformed, PresencePortOutsideOfTheRangeIsNotProbed) {
  const std::pair<int, std::string> table[] = {
      {0, ""}, {-1, ""}, {1, "127.0.0.1:1"}, {65535, "127.0.0.1:65535"}, {65536, ""}};
  for (const auto& [port, endpoint] : table) {
    MalformedService service({}, port);
    SessionOptions options;
    options.node_id = "node1";
    options.endpoints = options.job.endpoints = {service.endpoint()};
    options.insecure = true;
    std::promise<ServiceHost> host;
    SessionClient::Handler handler;
    handler.connected = [&, told = false](const ServiceHost& found) mutable {
      if (!std::exchange(told, true)) host.set_value(found);
    };
    const auto session = SessionClient::Start(options, handler);
    std::future<ServiceHost> found = host.get_future();
    ASSERT_EQ(found.wait_for(kTestPatience), std::future_status::ready);
    EXPECT_EQ(found.get().presence, endpoint.empty() ? PresenceProbe() : PresenceProbe({endpoint, 7}))
        << port;
  }
}

}  // namespace
}  // namespace mtrun::rendezvous

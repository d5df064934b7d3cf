// A service whose events cannot be decoded.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

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
  explicit MalformedService(wire::ServiceEvent last) : last_(std::move(last)) {
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

}  // namespace
}  // namespace mtrun::rendezvous

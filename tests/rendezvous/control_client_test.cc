#include "rendezvous/client/control_client.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/client/measure_client.h"
#include "rendezvous/wire/rendezvous.grpc.pb.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

ControlAnswer Done(const std::string& endpoint, const std::string& text) {
  return {.endpoint = endpoint, .done = true, .has_job = true, .text = text};
}
ControlAnswer Refused(const std::string& endpoint, const std::string& text, bool has_job = true) {
  return {.endpoint = endpoint, .has_job = has_job, .text = text};
}
ControlAnswer Silent(const std::string& endpoint) {
  return {.endpoint = endpoint, .reached = absl::UnavailableError(absl::StrCat("nobody at ", endpoint))};
}

std::string ErrorOf(const std::vector<ControlAnswer>& answers) {
  const absl::StatusOr<std::string> judged = JudgeAnswers(answers);
  EXPECT_TRUE(absl::IsFailedPrecondition(judged.status())) << judged.status();
  return std::string(judged.status().message());
}

TEST(ControlClient, OneSuccessfulServiceSuffices) {
  EXPECT_EQ(JudgeAnswers({Silent("a:1"), Done("b:1", "done"), Refused("c:1", "no job", false)}).value(),
            "done");
  EXPECT_EQ(JudgeAnswers({Done("a:1", "done"), Done("b:1", "done too")}).value(), "done\ndone too");
  EXPECT_EQ(JudgeAnswers({Done("a:1", "done"), Refused("b:1", "it is connected")}).value(), "done");
}

TEST(ControlClient, RefusalByTheServiceOfTheJobIsReported) {
  EXPECT_EQ(ErrorOf({Silent("a:1"), Refused("b:1", "it is connected"), Refused("c:1", "no job", false)}),
            "b:1: it is connected");
}

TEST(ControlClient, EveryAnswerIsReportedIfNoServiceHasTheJob) {
  EXPECT_EQ(ErrorOf({Silent("a:1"), Refused("b:1", "no job", false), Silent("a:1")}),
            "nobody at a:1\nb:1: no job");
}

TEST(ControlClient, ErrorNamesAMalformedEndpoint) {
  const auto asked = AskToControl({"node1:x"}, {.insecure = true}, {.what = StopCall()});
  EXPECT_THAT(std::string(asked.status().message()), HasSubstr("node1:x"));
}

/// A service of a version that does not know the request.
TEST(ControlClient, ErrorNamesAnOlderService) {
  wire::Rendezvous::Service old;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&old);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const auto asked =
      AskToControl({absl::StrCat("127.0.0.1:", port)}, {.insecure = true}, {.what = DrainCall{"node2"}});
  EXPECT_THAT(std::string(asked.status().message()), HasSubstr("is of an older mtrun"));
  const auto measured = MeasureThroughput(absl::StrCat("127.0.0.1:", port), /*insecure=*/true, "");
  EXPECT_TRUE(absl::IsUnimplemented(measured.status())) << measured.status();
}

}  // namespace
}  // namespace mtrun::rendezvous

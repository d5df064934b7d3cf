// Answers of a standby service to an operator's statement about the node that hosts its job elsewhere.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/client/control_client.h"
#include "rendezvous/service/service.h"

namespace mtrun::rendezvous {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Starts a service whose agent knows generation 4 of job "run7", whose host is node0.
std::unique_ptr<Service> StandBy(bool has_agent) {
  ServiceOptions options;
  options.listen = "127.0.0.1:0";
  options.insecure = options.embedded = true;
  options.endpoint = "127.0.0.1:29400";
  options.standby_address = "127.0.0.1";
  if (has_agent) {
    options.evict_host = [](const std::string&, const std::string& node) -> absl::StatusOr<Eviction> {
      if (node != "node0") return absl::FailedPreconditionError(absl::StrCat(node, " hosts nothing"));
      return Eviction{"run7", "node0-1-ab", "node0", {4, 77}};
    };
  }
  auto service = Service::Start(options);
  EXPECT_TRUE(service.ok()) << service.status();
  return *std::move(service);
}

std::string EvictAt(const Service& service, const std::string& node) {
  const auto answer = ControlWith({absl::StrCat("127.0.0.1:", service.port())}, /*insecure=*/true, "",
                                  {.what = EvictCall{node}});
  return answer.ok() ? "done: " + *answer : "refused: " + std::string(answer.status().message());
}

TEST(HostWord, IsDecidedByTheAgentThatHostsTheService) {
  const auto service = StandBy(/*has_agent=*/true);
  EXPECT_THAT(EvictAt(*service, "node0"),
              AllOf(HasSubstr("done: node0 is evicted from generation 4 of job \"run7\""),
                    HasSubstr("continue without its service")));
  EXPECT_THAT(EvictAt(*service, "node1"), AllOf(HasSubstr("refused: "), HasSubstr("node1 hosts nothing")));
}

TEST(HostWord, IsRefusedByAServiceWithoutAnAgent) {
  EXPECT_THAT(EvictAt(*StandBy(/*has_agent=*/false), "node0"), HasSubstr("the service has no job"));
}

}  // namespace
}  // namespace mtrun::rendezvous

// Where the service listens, and that it does not listen there in plain text by mistake.
#include "rendezvous/service/service.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/eviction_client.h"
#include "rendezvous/status_client.h"
#include "tests/support/program.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kPatience{30};

TEST(Service, WillNotListenInPlainTextWhereOthersReachIt) {
  for (const char* listen : {"[::]:0", "0.0.0.0:0", "[::ffff:0.0.0.0]:0", "127.example.org:0"}) {
    ServiceOptions options;
    options.listen = listen;
    const auto refused = Service::Start(options);
    EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << listen << ": " << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("without TLS")) << listen;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("give --insecure")) << listen;
  }
}

TEST(Service, ListensEverywhereWithTlsOrWhenItWasAllowed) {
  ServiceOptions options;
  options.listen = "0.0.0.0:0";
  options.insecure_anywhere = true;
  EXPECT_TRUE(Service::Start(options).ok());
  options.insecure_anywhere = options.insecure = false;
  options.token = std::string(64, 'a');
  EXPECT_TRUE(Service::Start(options).ok());
}

TEST(Service, OnlyWhoHasTheTokenEvictsANode) {
  ServiceOptions options;
  options.listen = "127.0.0.1:0";
  options.insecure = false;
  options.token = std::string(64, 'a');
  const auto service = Service::Start(options);
  ASSERT_TRUE(service.ok()) << service.status();
  const auto why_not = [&](char token) {
    const support::TemporaryFolder folder;
    support::WriteText(folder.File("token"), std::string(64, token));
    std::filesystem::permissions(folder.File("token"), std::filesystem::perms::owner_read);
    const auto asked = AskToEvict({absl::StrCat("127.0.0.1:", (*service)->port())}, std::nullopt,
                                  folder.File("token"), "", "node1");
    return std::string(asked.status().message());
  };
  EXPECT_THAT(why_not('b'), HasSubstr("has another token"));
  EXPECT_THAT(why_not('a'), HasSubstr("the service has no job"));
}

TEST(Service, LocalhostIsServedOnEachOfItsAddresses) {
  ServiceOptions options;
  options.listen = "localhost:0";
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

}  // namespace
}  // namespace mtrun::rendezvous

// The fetcher as a separate process, and servers whose answers are endless, slow or too large.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/support/token.h"
#include "tests/support/toy_http_server.h"

namespace mtrun::mtdata {
namespace {

using support::Program;
using support::ToyHttpServer;
using testing::HasSubstr;

class HostileServers : public testing::Test {
 protected:
  std::unique_ptr<Program> Fetch(const ToyHttpServer& server) const {
    support::Overlay environment = mark_.overlay();
    environment["MTRUN_TOKEN"] = support::kToken;
    return std::make_unique<Program>(
        std::vector<std::string>{support::BinaryFolder() + "/mtdata", "fetch", server.url() + "/set",
                                 "--cache", folder_.File("cache")},
        environment);
  }

  support::Mark mark_;
  support::TemporaryFolder folder_;
};

TEST_F(HostileServers, TwoBytesASecondAreReported) {
  const ToyHttpServer server({.body = "{}", .repeats = true, .pause = std::chrono::seconds(1)});
  const auto fetch = Fetch(server);
  EXPECT_TRUE(fetch->WaitForLine("/set/index.json arrives with only ")) << fetch->Text();
  EXPECT_TRUE(fetch->WaitForLine("Operation too slow")) << fetch->Text();
  for (int i = 0; i < 600 && server.requests() < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GE(server.requests(), 2) << "it is tried again";
}

TEST_F(HostileServers, EndlessErrorIsAnErrorAndTriedAgain) {
  const ToyHttpServer server({.status = 503, .body = std::string(1024, 'x'), .repeats = true});
  const auto fetch = Fetch(server);
  EXPECT_TRUE(fetch->WaitForLine("index.json: the server answers HTTP 503")) << fetch->Text();
  for (int i = 0; i < 600 && server.requests() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GE(server.requests(), 3);
}

TEST_F(HostileServers, EndlessIndexIsRefused) {
  const ToyHttpServer server({.body = std::string(1 << 20, ' '), .repeats = true});
  const auto fetch = Fetch(server);
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), HasSubstr("/set/index.json is larger than 256 MiB"));
}

TEST_F(HostileServers, IndexOfMillionsOfValuesIsRefused) {
  std::string body = "[[]";
  for (int i = 0; i < 4 << 20; ++i) body += ",[]";
  const ToyHttpServer server({.body = body + "]"});
  const auto fetch = Fetch(server);
  EXPECT_EQ(fetch->Wait(), 1);
  EXPECT_THAT(fetch->Text(), HasSubstr("more than 3145728 values besides the shards"));
}

}  // namespace
}  // namespace mtrun::mtdata

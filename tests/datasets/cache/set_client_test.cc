// How a client finds its fetcher; tests/mtdata has what they say to each other.
#include "datasets/cache/set_client.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "datasets/cache/cache_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/other_users_listener.h"
#include "tests/support/program.h"
#include "tests/support/status.h"

namespace mtrun::datasets {
namespace {

using support::StatusIs;
using testing::HasSubstr;

class SetClientTest : public testing::Test {
 protected:
  /// Opens a set with a fetcher that says something and exits, and looks once.
  absl::Status OpenOnce() {
    SetClient client(
        {.cache = folder_.path(), .open = {}, .fetcher = {"/bin/sh", "-c", "echo said; exit 1"}});
    return client.Open([&](const SetClient::Wait& wait) {
      trouble_ = wait.trouble;
      return absl::CancelledError("looked once");
    });
  }
  const support::TemporaryFolder folder_;
  const std::string log_ = folder_.File(FetcherFile("log"));
  std::string trouble_;
};

TEST_F(SetClientTest, FetcherThatExitsIsQuoted) {
  EXPECT_THAT(OpenOnce(), StatusIs(absl::StatusCode::kCancelled, "looked once"));
  EXPECT_EQ(trouble_, "the fetcher exits at once: said (its log: " + log_ + ")");
  EXPECT_EQ(support::ReadText(log_), "said\n");
}

/// Another user who may write to the cache knows the name of the log.
TEST_F(SetClientTest, LogThatIsALinkIsNotWritten) {
  const std::string victim = folder_.File("victim");
  support::WriteText(victim, "years");
  std::filesystem::create_symlink(victim, log_);
  EXPECT_THAT(OpenOnce(), StatusIs(absl::StatusCode::kCancelled, "looked once"));
  EXPECT_THAT(trouble_, HasSubstr("cannot start /bin/sh to fetch data"));
  EXPECT_EQ(support::ReadText(victim), "years");
}

/// It would be told the secrets with which the data are read.
TEST_F(SetClientTest, FetcherOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  support::OtherUsersListener stranger(folder_.File(FetcherFile("sock")));
  EXPECT_TRUE(stranger.Listens());
  EXPECT_THAT(OpenOnce(), StatusIs(absl::StatusCode::kPermissionDenied,
                                   "the fetcher of another user is running in " + folder_.path()));
  EXPECT_EQ(stranger.End(), 0);
}

}  // namespace
}  // namespace mtrun::datasets

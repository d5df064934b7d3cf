// How a client finds its fetcher; tests/mtdata has what they say to each other.
#include "datasets/cache/set_client.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/unix_address.h"
#include "datasets/cache/cache_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
  const std::string path = folder_.File(FetcherFile("sock"));
  int ready[2], end[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(end), 0);
  const pid_t stranger = fork();
  if (stranger == 0) {
    close(end[1]);
    const UnixAddress address = *ParseUnixAddress(path);
    const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    char byte = 0;
    if (setuid(65534) != 0 || bind(listener.get(), address.get(), address.size) != 0) _exit(2);
    _exit(listen(listener.get(), 1) == 0 && write(ready[1], &byte, 1) == 1 && read(end[0], &byte, 1) == 0
              ? 0
              : 3);
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(OpenOnce(), StatusIs(absl::StatusCode::kPermissionDenied,
                                   "the fetcher of another user is running in " + folder_.path()));
  for (const int fd : {ready[0], end[0], end[1]}) close(fd);
  int status = -1;
  EXPECT_EQ(waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mtrun::datasets

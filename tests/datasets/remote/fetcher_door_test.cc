#include "datasets/remote/fetcher_door.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
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

namespace fs = std::filesystem;
using support::StatusIs;
using testing::HasSubstr;

class FetcherDoorTest : public testing::Test {
 protected:
  UniqueFd Dial() const {
    const UnixAddress address = *ParseUnixAddress(socket_);
    UniqueFd dialed(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(dialed.get(), address.get(), address.size) != 0) dialed.Reset();
    return dialed;
  }
  const support::TemporaryFolder folder_;
  const std::string lock_ = folder_.File(FetcherFile("lock")), socket_ = folder_.File(FetcherFile("sock"));
};

TEST_F(FetcherDoorTest, CacheHasOneFetcherAtATime) {
  {
    const auto door = FetcherDoor::Open(folder_.path());
    ASSERT_TRUE(door.ok()) << door.status();
    EXPECT_THAT(FetcherDoor::Open(folder_.path()),
                StatusIs(absl::StatusCode::kAlreadyExists, "this cache already has a fetcher"));
    EXPECT_TRUE(Dial().valid()) << "the second one has not taken the socket away";
  }
  EXPECT_TRUE(FetcherDoor::Open(folder_.path()).ok());
}

TEST_F(FetcherDoorTest, FilesAreForThisUserAlone) {
  const auto door = FetcherDoor::Open(folder_.path());
  ASSERT_TRUE(door.ok()) << door.status();
  for (const std::string& path : {lock_, socket_})
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write) << path;
}

/// Another user who may write to the cache knows the names.
TEST_F(FetcherDoorTest, LinkIsNotFollowed) {
  const std::string victim = folder_.File("victim");
  fs::create_symlink(victim, lock_);
  EXPECT_THAT(FetcherDoor::Open(folder_.path()),
              StatusIs(ErrnoStatus(ELOOP, "").code(), HasSubstr("open " + lock_)));
  EXPECT_FALSE(fs::exists(victim));
  fs::remove(lock_);
  support::WriteText(victim, "years");
  fs::create_symlink(victim, socket_);
  const auto door = FetcherDoor::Open(folder_.path());
  ASSERT_TRUE(door.ok()) << door.status();
  EXPECT_TRUE(fs::is_socket(fs::symlink_status(socket_)));
  EXPECT_EQ(support::ReadText(victim), "years");
}

TEST_F(FetcherDoorTest, ClientOfAnotherUserIsDropped) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  auto door = FetcherDoor::Open(folder_.path());
  ASSERT_TRUE(door.ok()) << door.status();
  // The second line of defence: the modes let the other user in.
  fs::permissions(folder_.path(), fs::perms(0755));
  fs::permissions(socket_, fs::perms(0666));
  int dialed[2];
  ASSERT_EQ(pipe(dialed), 0);
  const pid_t stranger = fork();
  if (stranger == 0) {
    char byte = 0;
    const UnixAddress address = *ParseUnixAddress(socket_);
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (setuid(65534) != 0 || connect(socket.get(), address.get(), address.size) != 0) _exit(2);
    if (write(dialed[1], &byte, 1) != 1) _exit(3);
    _exit(read(socket.get(), &byte, 1) == 0 ? 0 : 4);  // the door closes it
  }
  char byte = 0;
  close(dialed[1]);
  EXPECT_EQ(read(dialed[0], &byte, 1), 1);
  close(dialed[0]);
  const UniqueFd own = Dial();
  EXPECT_TRUE(door->Hear().empty());
  EXPECT_EQ(door->clients(), 1u) << "this user's own";
  door = absl::CancelledError();  // ends a stranger who was let in
  int status = -1;
  EXPECT_EQ(waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace mtrun::datasets

// What mtrun asks a trainer first, of data on a server that takes connections and never answers.
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>

#include "base/posix.h"
#include "tests/e2e/launcher.h"
#include "tests/support/tcp_client.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;

class CheckedTrainingTest : public LauncherTest {
 protected:
  CheckedTrainingTest() : silent_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = support::AddressOf("127.0.0.1", 0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(silent_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(silent_.get(), 16), 0);
    EXPECT_EQ(getsockname(silent_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port), "/x");
  }
  /// Whether somebody comes to the server within `patience`.
  bool IsAsked(Seconds patience) const {
    pollfd caller = {silent_.get(), POLLIN, 0};
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(patience);
    return poll(&caller, 1, static_cast<int>(time.count())) == 1;
  }
  std::vector<std::string> Trainer() const {
    return {"--data", url_, "--cache", cache_, "--model_folder", folder_.File("run")};
  }

  const std::string cache_ = folder_.File("cache");
  std::string url_;
  const UniqueFd silent_;
};

TEST_F(CheckedTrainingTest, ARunOnAServersDataIsGuardedAndToldOfBeforeTheyCome) {
  const std::string events = folder_.File("events");
  Program training(Command(Words({"--standalone", "--event_log", events, "--trainer", "cnnA"}, Trainer())),
                   Environment());
  const auto give_up = std::chrono::steady_clock::now() + support::kPatience;
  while (support::ReadText(events).empty() && std::chrono::steady_clock::now() < give_up)
    ASSERT_FALSE(training.Wait(Seconds(0.02))) << training.Text();
  EXPECT_THAT(support::ReadText(events), HasSubstr("\"event\"")) << training.Text();
  EXPECT_TRUE(IsAsked(support::kPatience)) << training.Text();
  training.Signal(SIGTERM);
  EXPECT_EQ(training.Wait(), 143) << training.Text();
  EXPECT_TRUE(mark_.WaitForNone(kSoon)) << "the trainer or the fetcher goes on";
}

TEST_F(CheckedTrainingTest, ACheckLooksAtAllButTheServersData) {
  struct Case {
    std::vector<std::string> flags;
    int status;
    std::string said;
  };
  const std::string none = folder_.File("none");
  const std::vector<Case> cases = {
      {{}, 0, ""},
      {{"--data", "https://127.0.0.1/x?y"}, 2, "127.0.0.1/x?y"},
      {{"--data_bearer_file", none}, 2, "--data_bearer_file"},
      {{"--init_from", none}, 2, "--init_from " + none},
      {{"--image_size", "64"}, 2, "--image_size 64: cnnA takes images of 32x32 only"},
      {{"--model_folder", "/dev/null/run"}, 2, "/dev/null/run"},
  };
  for (const Case& c : cases) {
    Program check(Words(Words({support::BinaryFolder() + "/cnnA", "--check"}, Trainer()), c.flags),
                  Environment());
    EXPECT_EQ(check.Wait(), c.status) << c.said << "\n" << check.Text();
    EXPECT_THAT(check.Text(), HasSubstr(c.said));
  }
  EXPECT_FALSE(IsAsked(Seconds(0)));
  EXPECT_FALSE(std::filesystem::exists(cache_));
}

}  // namespace
}  // namespace mtrun::e2e

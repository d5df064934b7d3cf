// mtrun's settings check of a trainer whose data is on a server that accepts connections and never answers.
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "base/posix.h"
#include "tests/e2e/launcher.h"
#include "tests/support/silent_server.h"

namespace mtrun::e2e {
namespace {

using testing::HasSubstr;

class CheckedTrainingTest : public LauncherTest {
 protected:
  std::vector<std::string> Trainer() const {
    return {"--data", url_, "--cache", cache_, "--model_folder", folder_.File("run")};
  }

  const std::string cache_ = folder_.File("cache");
  const support::SilentServer silent_;
  const std::string url_ = absl::StrCat("http://", silent_.endpoint(), "/x");
};

TEST_F(CheckedTrainingTest, RunWithServedDataIsWatchedAndLoggedBeforeItArrives) {
  const std::string events = folder_.File("events");
  Program training(Command(Words({"--standalone", "--event_log", events, "--trainer", "cnnA"}, Trainer())),
                   Environment());
  const auto give_up = std::chrono::steady_clock::now() + support::kPatience;
  while (support::ReadText(events).empty() && std::chrono::steady_clock::now() < give_up)
    ASSERT_FALSE(training.Wait(Seconds(0.02))) << training.Text();
  EXPECT_THAT(support::ReadText(events), HasSubstr("\"event\"")) << training.Text();
  EXPECT_TRUE(silent_.IsAsked(support::kPatience)) << training.Text();
  training.Signal(SIGTERM);
  EXPECT_EQ(training.Wait(), 143) << training.Text();
  EXPECT_TRUE(mark_.WaitForNone(kSoon)) << "the trainer or the fetcher goes on";
}

TEST_F(CheckedTrainingTest, CheckCoversEverythingExceptServedData) {
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
      {{"--init_from", none}, 2, "--init_from: open " + none},
      {{"--image_size", "64"}, 2, "--image_size 64: cnnA takes images of 32x32 only"},
      {{"--model_folder", "/dev/null/run"}, 2, "/dev/null/run"},
  };
  for (const Case& c : cases) {
    Program check(Words(Words({support::BinaryFolder() + "/cnnA", "--check"}, Trainer()), c.flags),
                  Environment());
    EXPECT_EQ(check.Wait(), c.status) << c.said << "\n" << check.Text();
    EXPECT_THAT(check.Text(), HasSubstr(c.said));
  }
  EXPECT_FALSE(silent_.IsAsked(Seconds(0)));
  EXPECT_FALSE(std::filesystem::exists(cache_));
}

}  // namespace
}  // namespace mtrun::e2e

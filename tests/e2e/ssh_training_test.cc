// mtrun --hosts with a trainer, using real ssh and sshd. tools/test --full.
#include <csignal>

#include "tests/e2e/sshd.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(SshTest, TrainerStoppedOnTwoHostsContinuesOnOne) {
  const auto one = Sshd(1), two = Sshd(2);
  const std::string data = trainers::testing::WritePackedSet(
      folder_.path(), "data", {.train = 4000, .test = 40}, trainers::testing::LearnablePixel);
  const auto train = [&](const std::string& hosts) {
    return Start({"--hosts", hosts, "--trainer", "cnnA", "--data", data, "--model_folder",
                  folder_.File("run"), "--epochs", "12", "--global_batch", "16", "--batch_size", "4",
                  "--threads", "1"});
  };
  const auto both = train("one:2,two:2");
  ASSERT_TRUE(both->WaitForLine("epoch 2/12", kSoon)) << both->Text();
  both->Signal(SIGINT);
  EXPECT_EQ(both->Wait(), 128 + SIGINT) << both->Text();
  EXPECT_THAT(both->Text(), AllOf(HasSubstr("world size 4"), HasSubstr("received SIGINT: stopped at step")));
  const auto alone = train("two:3");
  EXPECT_EQ(alone->Wait(), 0) << alone->Text();
  Program verify({"python3", support::TestFile("../tools/verify_ledger"), folder_.File("run")});
  EXPECT_EQ(verify.Wait(), 0) << verify.Text() << both->Text() << alone->Text();
}

}  // namespace
}  // namespace mtrun::e2e

// The shipped batch script under a real Slurm and with the real trainer. tools/test --full.
#include "tests/e2e/slurm.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(SlurmTest, ShippedBatchScriptSavesIsRequeuedAndContinues) {
  std::filesystem::create_directory(folder_.File("data"));
  trainers::testing::WritePackedSet(folder_.File("data"), "cifar10", {.train = 20000, .test = 40},
                                    trainers::testing::LearnablePixel);
  // The machine may have fewer than eight processors per node.
  const std::string id = Submit({"--cpus-per-task=1"}, support::TestFile("../configs/slurm/trainer.sbatch"));
  ASSERT_TRUE(WaitForOutput("epoch 2/10")) << Output();
  Ask({"scancel", "--signal=USR1", id});  // like --signal before the time limit
  ASSERT_TRUE(WaitForOutput("Exited with exit code 85")) << Output();
  ASSERT_TRUE(WaitForOutput("the job has ended: all 2 nodes finished", kMinutes)) << Output();
  EXPECT_THAT(Output(), AllOf(HasSubstr("received SIGUSR1: stopped at step"),
                              HasSubstr(absl::StrCat("--rdzv_id slurm-", id, ".0-requeued-1"))));
  Program verify({"python3", support::TestFile("../tools/verify_ledger"), folder_.File("runs/cnnA")});
  EXPECT_EQ(verify.Wait(), 0) << verify.Text() << Output();
}

}  // namespace
}  // namespace mtrun::e2e

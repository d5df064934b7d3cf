// What the user of a training job reads, at the default level of the log.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/e2e/training.h"

namespace mtrun::e2e {
namespace {

class StoryTrainingTest : public TrainingRuns {
 protected:
  std::unique_ptr<Program> TrainNode(int rank) {
    return Train({"--nnodes", "1:2", "--nproc_per_node", "1", "--rdzv_endpoint", endpoint_, "--rdzv_conf",
                  "last_call_timeout=60", "--node_rank", absl::StrCat(rank)},
                 "nodes", 100000);
  }
};

TEST_F(StoryTrainingTest, LostNodeIsAStoryOfFewLines) {
  const auto first = TrainNode(0);
  ASSERT_TRUE(first->WaitForLine("hosting the rendezvous")) << first->Text();
  const auto second = TrainNode(1);
  ASSERT_TRUE(first->WaitForLine("world size 2")) << first->Text() << second->Text();
  ASSERT_TRUE(first->WaitForLine("epoch 2/100000")) << first->Text();
  second->Signal(SIGKILL);
  ASSERT_TRUE(first->WaitForLine("lost (killed): 2 -> 1 worker, step ")) << first->Text();
  std::vector<std::string> story;
  for (const std::string& line : first->ErrLines()) {
    if (absl::StrContains(line, " mtrun ")) story.push_back(line);
  }
  EXPECT_LE(story.size(), 12u) << absl::StrJoin(story, "\n");
  EXPECT_THAT(first->Text(),
              testing::Not(testing::ContainsRegex("mtrun I rendezvous [a-z0-9]+: |I regrouping: ")));
  second->Wait();
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 143) << first->Text();
}

}  // namespace
}  // namespace mtrun::e2e

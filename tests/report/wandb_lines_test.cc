// Runs the lines of docs/formats.md that import a run into Weights & Biases, with a module that prints what
// it is given in place of theirs. With wandb 0.28.1 itself they were run by hand.
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace mtrun {
namespace {

constexpr char kPrintingModule[] = R"(
class Run:
    def log(self, point, step): print(step, sorted(point.items()))
    def finish(self): print("finished")
def init(project, config):
    print(project, config["program"])
    return Run()
)";

constexpr char kMetrics[] = R"({"step":0,"epoch":1,"loss":2.5,"lr":0.5,"samples":64,"seconds":0.1}
{"step":1,"epoch":1,"loss":9,"lr":0.5,"samples":64,"seconds":0.1}
{"eval":1,"steps":2,"test_loss":9}
{"rewind":1}
{"step":1,"epoch":1,"loss":2,"lr":0.5,"samples":64,"seconds":0.1}
{"regroup":2,"world":3,"steps":2}
{"eval":1,"steps":2,"test_loss":1}
)";

TEST(WandbLines, RunIsLoggedStepByStepWithoutCancelledSteps) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3 here";
  const std::string page = support::ReadText(support::TestFile("../docs/formats.md")), begin = "```python\n";
  const size_t first = page.find(begin + "import json, sys, wandb");
  ASSERT_NE(first, std::string::npos);
  const size_t code = first + begin.size();
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("lines.py"), page.substr(code, page.find("```", code) - code));
  support::WriteText(folder.File("wandb.py"), kPrintingModule);
  support::WriteText(folder.File("metrics.jsonl"), kMetrics);
  support::WriteText(folder.File("report.json"), R"({"program":"cnnA"})");
  support::Program lines({"python3", folder.File("lines.py"), folder.path()});
  EXPECT_EQ(lines.Wait(), 0) << lines.Text();
  EXPECT_EQ(lines.Text(),
            "mtrun cnnA\n"
            "0 [('learning_rate', 0.5), ('loss', 2.5)]\n"
            "1 [('eval', 1), ('learning_rate', 0.5), ('loss', 2), ('test_loss', 1)]\n"
            "finished\n");
}

}  // namespace
}  // namespace mtrun

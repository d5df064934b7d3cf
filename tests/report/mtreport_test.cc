#include <filesystem>

#include "base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun {
namespace {

using support::Program;
using ::testing::HasSubstr;

class MtreportTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(support::TestFile("testdata/formats/0.1.0/run"), run_,
                          std::filesystem::copy_options::recursive);
  }
  /// Returns the exit status.
  int Report(std::vector<std::string> args) {
    args.insert(args.begin(), support::BinaryFolder() + "/mtreport");
    Program program(args);
    const int status = program.Wait().value_or(-1);
    said_ = program.Text();
    return status;
  }

  const support::TemporaryFolder folder_;
  const std::string run_ = folder_.File("run");
  std::string said_;
};

TEST_F(MtreportTest, WritesThePageAndItsFiles) {
  EXPECT_EQ(Report({run_}), 0) << said_;
  EXPECT_THAT(support::ReadText(run_ + "/report.html"), HasSubstr("</html>"));
  EXPECT_FALSE(std::filesystem::exists(run_ + "/2_3_1_1.txt"));
  EXPECT_THAT(support::ReadText(run_ + "/results.csv"), HasSubstr("\n3,"));
  EXPECT_EQ(Report({run_, "--result_file"}), 0) << said_;
  EXPECT_THAT(support::ReadText(run_ + "/2_3_1_1.txt"), HasSubstr("Best accuracy: 50.00 %"));
  EXPECT_THAT(said_, HasSubstr("report.html"));
  EXPECT_EQ(Report({run_, "--quiet", "--plots=false", "--out", folder_.File("page.html")}), 0);
  EXPECT_EQ(said_, "");
  EXPECT_TRUE(std::filesystem::exists(folder_.File("page.html")));
}

TEST_F(MtreportTest, SeveralRunsNeedAName) {
  EXPECT_EQ(Report({run_, run_}), 2);
  EXPECT_THAT(said_, HasSubstr("give --out FILE"));
  EXPECT_EQ(Report({"--out", folder_.File("both.html"), run_, run_}), 0) << said_;
}

TEST_F(MtreportTest, ListsAndComparesRuns) {
  EXPECT_EQ(Report({"list", folder_.path()}), 0) << said_;
  EXPECT_THAT(said_, HasSubstr(run_ + "  50.0 %"));
  EXPECT_EQ(Report({"compare", run_, run_}), 0) << said_;
  EXPECT_THAT(said_, HasSubstr("test accuracy"));
  EXPECT_EQ(Report({"compare", run_}), 2);
  EXPECT_THAT(said_, HasSubstr("give two runs or more"));
  EXPECT_EQ(Report({"list", folder_.File("none")}), 1);
  EXPECT_THAT(said_, HasSubstr("No such file"));
  std::filesystem::create_directory(folder_.File("empty"));
  EXPECT_EQ(Report({"list", folder_.File("empty")}), 1);
  EXPECT_THAT(said_, HasSubstr("has no run folders"));
}

TEST_F(MtreportTest, ReportsErrors) {
  EXPECT_EQ(Report({}), 2);
  EXPECT_THAT(said_, HasSubstr("give the --model_folder of a run"));
  EXPECT_EQ(Report({folder_.path()}), 1);
  EXPECT_THAT(said_, HasSubstr("is not a run folder"));
  EXPECT_EQ(Report({run_, "--out", folder_.File("none/page.html")}), 1);
  EXPECT_EQ(Report({run_, "--plot"}), 0);  // an unambiguous prefix, as everywhere
  EXPECT_EQ(Report({"--version"}), 0);
  EXPECT_THAT(said_, HasSubstr("mtreport " + Version() + " (commit "));
}

}  // namespace
}  // namespace mtrun

#include "launcher/doctor/program_findings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using ::testing::HasSubstr;

TEST(ProgramFindingsTest, PythonIsNamedWithItsPyTorch) {
  EXPECT_EQ(JudgePython({.file = "/venv/bin/python", .version = "3.11.2", .torch = "2.11.0"}),
            (Finding{Health::kOk, "Python", "/venv/bin/python is 3.11.2, with PyTorch 2.11.0"}));
  const Finding without = JudgePython({.file = "/usr/bin/python3", .version = "3.11.2"});
  EXPECT_EQ(without.health, Health::kOk) << "trainers need none";
  EXPECT_THAT(without.found, HasSubstr("without PyTorch"));
}

TEST(ProgramFindingsTest, AnotherPythonThanTheShellsIsAWarning) {
  const Finding other = JudgePython({.file = "/a/python",
                                     .version = "3.11.2",
                                     .torch = "2.11.0",
                                     .note = "the program runs with /a/python, not /b/python3"});
  EXPECT_EQ(other.health, Health::kWarn);
  EXPECT_THAT(other.found, HasSubstr("not /b/python3"));
  const Finding none =
      JudgePython({.error = "no python3 on PATH to run the program with, and PYTHON_EXEC is not set"});
  EXPECT_EQ(none.health, Health::kWarn);
  EXPECT_THAT(none.mend, HasSubstr("PYTHON_EXEC"));
}

TEST(ProgramFindingsTest, TrainersAreNamedWithTheirVersion) {
  const std::vector<std::string> names = {"cnnA", "vit"};
  EXPECT_EQ(JudgeTrainers({.names = names, .asked = "cnnA", .version = "cnnA 0.2.0 (LibTorch 2.11.0)"}),
            (Finding{Health::kOk, "trainers", "cnnA, vit; cnnA 0.2.0 (LibTorch 2.11.0)"}));
  EXPECT_EQ(JudgeTrainers({.names = {"mine"}}), (Finding{Health::kOk, "trainers", "mine"}))
      << "a trainer of the user is not asked";
}

TEST(ProgramFindingsTest, TrainersThatAreMissingOrDoNotStartAreTold) {
  const Finding none = JudgeTrainers({.folders = {"/opt/bin"}});
  EXPECT_EQ(none.health, Health::kWarn) << "programs need no trainer";
  EXPECT_THAT(none.found, HasSubstr("none in /opt/bin"));
  const Finding broken = JudgeTrainers(
      {.names = {"cnnA"}, .asked = "cnnA", .error = "libtorch.so: cannot open shared object file"});
  EXPECT_EQ(broken.health, Health::kFail);
  EXPECT_THAT(broken.found, HasSubstr("cnnA does not start: libtorch.so"));
}

}  // namespace
}  // namespace mtrun::launcher

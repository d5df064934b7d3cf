#include "launcher/cli/program.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

class ProgramTest : public testing::Test {
 protected:
  ~ProgramTest() override { std::filesystem::remove_all(folder_); }

  std::string Make(const std::string& name, bool executable, const std::string& text = "#!/bin/sh\n") {
    const std::string path = folder_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    chmod(path.c_str(), executable ? 0755 : 0644);
    return path;
  }

  absl::StatusOr<Program> Resolve(EntryPoint entry) {
    return ResolveProgram(entry, environment_, folder_ + "/bin");
  }

  const std::string folder_ = *MakeTemporaryFolder("program_test_");
  EnvironmentMap environment_ = {{"PATH", folder_ + "/path"}};
};

TEST_F(ProgramTest, PythonRunsScriptsAndModules) {
  const std::string python = Make("path/python3", true), script = Make("train.py", true);
  EXPECT_THAT(Resolve({.words = {script, "--x"}})->argv, ElementsAre(python, "-u", script, "--x"));
  EXPECT_THAT(Resolve({.words = {"pkg.mod", "--x"}, .module = true})->argv,
              ElementsAre(python, "-u", "-m", "pkg.mod", "--x"));
  EXPECT_EQ(Resolve({.words = {script}, .no_python = true})->file, script);
  // A file without execute permission is taken for a script, as torchrun does with every file.
  const std::string plain = Make("train", false);
  EXPECT_THAT(Resolve({.words = {plain}})->argv, ElementsAre(python, "-u", plain));
}

TEST_F(ProgramTest, PythonRunsItsOwnExecutablesFoldersAndArchives) {
  const std::string python = Make("path/python3", true), main = Make("app/__main__.py", false);
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::string path = Make(name, true);
    std::ofstream(path) << text;
    return path;
  };
  for (const std::string& program :
       {write("train", "#!/usr/bin/env python3\nprint(1)\n"), write("app.pyz", "#!/opt/python3.9 -s\nPK\3\4"),
        write("app.zip", "PK\3\4..."), folder_ + "/app"}) {
    EXPECT_THAT(Resolve({.words = {program, "x"}})->argv, ElementsAre(python, "-u", program, "x"));
    EXPECT_TRUE(Resolve({.words = {program}})->python);
  }
  const std::string shell = write("run", "#!/bin/sh\n# not python\n");
  EXPECT_EQ(Resolve({.words = {shell}})->file, shell);
  EXPECT_EQ(Resolve({.words = {folder_ + "/train"}, .no_python = true})->file, folder_ + "/train");
}

TEST_F(ProgramTest, ChoosesThePython) {
  const std::string script = Make("train.py", false), on_path = Make("path/python3", true);
  const std::string venv = Make("venv/bin/python", true), named = Make("other/python", true);
  EXPECT_EQ(Resolve({.words = {script}})->file, on_path);
  environment_["VIRTUAL_ENV"] = folder_ + "/venv";
  EXPECT_EQ(Resolve({.words = {script}})->file, venv);
  environment_["PYTHON_EXEC"] = named;
  EXPECT_EQ(Resolve({.words = {script}})->file, named);
  environment_["PYTHON_EXEC"] = "/no/python";
  EXPECT_THAT(std::string(Resolve({.words = {script}}).status().message()), HasSubstr("PYTHON_EXEC"));
}

/// What to do about it is said by the doctor, which has this text in its finding.
TEST_F(ProgramTest, WithoutAPythonTheErrorNamesBothPlaces) {
  const std::string script = Make("train.py", false);
  environment_["PATH"] = folder_ + "/empty";
  EXPECT_EQ(Resolve({.words = {script}}).status().message(),
            "no python3 on PATH to run the program with, and PYTHON_EXEC is not set");
}

/// cron, systemd, srun and an image's entry point start /venv/bin/mtrun without activating the environment.
TEST_F(ProgramTest, PythonBesideMtrunPrecedesAnActiveEnvironmentAndPath) {
  const std::string script = Make("train.py", false), on_path = Make("path/python3", true);
  const std::string active = Make("venv/bin/python", true), own = Make("bin/python", true);
  environment_["VIRTUAL_ENV"] = folder_ + "/venv";
  EXPECT_EQ(Resolve({.words = {script}})->file, active)
      << "nothing says that this mtrun is in an environment";
  Make("pyvenv.cfg", false);
  EXPECT_EQ(Resolve({.words = {script}})->file, own);
  EXPECT_THAT(Resolve({.words = {script}})->note,
              AllOf(HasSubstr(own), HasSubstr(absl::StrCat("not ", active, " (VIRTUAL_ENV)")),
                    HasSubstr("PYTHON_EXEC=")));
  environment_.erase("VIRTUAL_ENV");
  EXPECT_THAT(Resolve({.words = {"m"}, .module = true})->note,
              HasSubstr(absl::StrCat("not ", on_path, " (PATH)")));
  environment_["PATH"] = folder_ + "/bin";
  Make("bin/python3", true);
  EXPECT_EQ(Resolve({.words = {script}})->note, "") << "PATH has the same environment";
  environment_["PYTHON_EXEC"] = on_path;
  EXPECT_EQ(Resolve({.words = {script}})->file, on_path);
  EXPECT_EQ(Resolve({.words = {script}})->note, "");
}

TEST_F(ProgramTest, PythonBesideMtrunIsFoundInCondaButNotInAToolsEnvironment) {
  const std::string script = Make("train.py", false), on_path = Make("path/python3", true);
  const std::string own = Make("bin/python3", true);
  EXPECT_EQ(Resolve({.words = {script}})->file, on_path);
  Make("conda-meta/history", false);
  EXPECT_EQ(Resolve({.words = {script}})->file, own);
  for (const char* tools : {"pipx_metadata.json", "uv-receipt.toml"}) {
    const std::string mark = Make(tools, false);
    EXPECT_EQ(Resolve({.words = {script}})->file, on_path) << tools;
    std::filesystem::remove(mark);
  }
  std::filesystem::remove(own);
  EXPECT_EQ(Resolve({.words = {script}})->file, on_path);
}

TEST_F(ProgramTest, ExecutablesAreFoundOnPath) {
  const std::string tool = Make("path/tool", true), here = Make("run.sh", true);
  const auto program = Resolve({.words = {"tool", "a"}});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->file, tool);
  EXPECT_THAT(program->argv, ElementsAre("tool", "a"));
  EXPECT_EQ(Resolve({.words = {here}})->file, here);
}

TEST_F(ProgramTest, LocalFileThatIsNotExecutableIsPythonWhateverIsOnPath) {
  const std::string python = Make("path/python3", true), tool = Make("path/tool", true);
  Make("tool", false);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const auto script = Resolve({.words = {"tool", "a"}}),
             program = Resolve({.words = {"tool"}, .no_python = true});
  std::filesystem::current_path(before);
  ASSERT_TRUE(script.ok() && program.ok()) << script.status() << program.status();
  EXPECT_THAT(script->argv, ElementsAre(python, "-u", "tool", "a"));
  EXPECT_EQ(program->file, tool);
}

TEST_F(ProgramTest, ErrorNamesAMissingProgram) {
  for (const char* name : {"nowhere", "nowhere.py", "/no/such/program"}) {
    const auto program = Resolve({.words = {name}});
    EXPECT_EQ(program.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(program.status().message()), AllOf(HasSubstr(name), HasSubstr("does not exist")));
  }
  const std::string plain = Make("data", false);
  EXPECT_THAT(std::string(Resolve({.words = {plain}, .no_python = true}).status().message()),
              HasSubstr("not a file that can be executed"));
}

TEST_F(ProgramTest, ScriptsAreIdentifiedByTheirContent) {
  Make("path/python3", true);
  const auto identity = [&](const EntryPoint& entry) { return ProgramIdentity(*Resolve(entry), entry); };
  const std::string first = identity({.words = {Make("a/train.py", false), "--epochs", "3"}});
  EXPECT_THAT(first, testing::MatchesRegex("train.py [0-9a-f]{12}"));
  EXPECT_EQ(identity({.words = {Make("b/train.py", false)}}), first) << "neither folder nor arguments count";
  std::ofstream(folder_ + "/b/train.py") << "print(1)\n";
  EXPECT_NE(identity({.words = {folder_ + "/b/train.py"}}), first);
  std::ofstream(Make("a/program", true)) << "\x7f"
                                            "ELF and so on";
  EXPECT_EQ(identity({.words = {folder_ + "/a/program"}}), "program") << "builds may differ";
  EXPECT_EQ(identity({.words = {"package.module"}, .module = true}), "package.module");
  std::ofstream(Make("path/tool", true)) << "#!/bin/sh\necho of PATH\n";
  const std::string tool = identity({.words = {"tool"}});
  Make("tool", true);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  EXPECT_EQ(identity({.words = {"tool"}}), tool) << "another file of the name is not what runs";
  std::filesystem::current_path(before);
}

TEST_F(ProgramTest, LocalRankIsSubstitutedInArguments) {
  const Program program{.file = "p",
                        .argv = {"p", "--out=${local_rank}.txt", "$$", "${local_rank}${local_rank}",
                                 "$local_rank/a", "$local_ranks"},
                        .name = "p"};
  EXPECT_THAT(ArgumentsFor(program, 3), ElementsAre("p", "--out=3.txt", "$$", "33", "3/a", "$local_ranks"));
}

TEST_F(ProgramTest, TrainersAreFoundInTheirFolders) {
  const std::string built = Make("bin/cnnA", true);
  Make("bin/mtrun", true);
  EXPECT_EQ(Resolve({.trainer = "cnnA", .words = {"--epochs", "1"}})->file, built);
  EXPECT_THAT(Resolve({.trainer = "cnnA", .words = {"--epochs", "1"}})->argv,
              ElementsAre(built, "--epochs", "1"));
  const std::string installed = Make("libexec/mtrun/trainers/cnnA", true);
  EXPECT_EQ(Resolve({.trainer = "cnnA"})->file, installed);
  const std::string packaged = Make("lib/python3.11/site-packages/mtrun/libexec/mtrun/trainers/cnnB", true);
  EXPECT_EQ(Resolve({.trainer = "cnnB"})->file, packaged);
  EXPECT_EQ(Resolve({.trainer = "cnnA"})->file, installed);
  const std::string own = Make("mine/cnnA", true);
  environment_["MTRUN_TRAINER_PATH"] = folder_ + "/none:" + folder_ + "/mine";
  EXPECT_EQ(Resolve({.trainer = "cnnA"})->file, own);
}

TEST_F(ProgramTest, TrainersInPythonRunUnderTheLaunchersPython) {
  const std::string python = Make("bin/python3", true);
  environment_["PYTHON_EXEC"] = python;
  const std::string any = Make("bin/any", true, "#!/usr/bin/env python3\n");
  const auto program = Resolve({.trainer = "any", .words = {"--epochs", "1"}});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->argv, ElementsAre(python, "-u", any, "--epochs", "1"));
  EXPECT_EQ(program->name, "any");
  const std::string fixed = Make("bin/fixed", true, "#!/opt/python/bin/python3\n");
  EXPECT_THAT(Resolve({.trainer = "fixed"})->argv, ElementsAre(fixed));
}

TEST_F(ProgramTest, MissingTrainerListsTheOthers) {
  Make("bin/cnnA", true);
  Make("bin/vit", true);
  for (const char* other : {"mtrun", "mtrdzv", "mtdata", "mtreport"}) Make(absl::StrCat("bin/", other), true);
  const auto program = Resolve({.trainer = "cnnB"});
  EXPECT_EQ(program.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(program.status().message()),
              AllOf(HasSubstr("--trainer cnnB: there is no such trainer (found: cnnA, vit; looked in "),
                    EndsWith("/bin); did you mean cnnA?")));
  EXPECT_FALSE(Resolve({.trainer = "../bin/cnnA"}).ok());
}

}  // namespace
}  // namespace mtrun::launcher

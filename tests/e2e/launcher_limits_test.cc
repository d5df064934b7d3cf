// mtrun where a machine or a launcher above it grants little: sizes of files, open files, processes, a
// read-only file system, an old kernel, Open MPI's second between SIGTERM and SIGKILL.
#include <signal.h>
#include <unistd.h>

#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class LimitsTest : public LauncherTest {
 protected:
  /// Runs mtrun below a command that sets the limit.
  std::unique_ptr<Program> Below(const std::vector<std::string>& limit, const std::vector<std::string>& args,
                                 const support::Overlay& more = {}) const {
    support::Overlay overlay = Environment();
    for (const auto& [name, value] : more) overlay[name] = value;
    return std::make_unique<Program>(Words(limit, Command(Words({"--standalone"}, args))), overlay);
  }
};

/// Slurm and LSF set such limits. The logs that nobody asked for must not end the job.
TEST_F(LimitsTest, SizeLimitOfFilesEndsNoJob) {
  const std::string run = Script("run.sh", "seq 1 20000\necho rank $RANK ends\n");
  for (const auto& logs : {std::vector<std::string>{}, {"--log_dir", folder_.File("logs")}}) {
    const auto mtrun = Below({"prlimit", "--fsize=4096"}, Words(logs, {"--nproc_per_node", "2", run}));
    EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
    EXPECT_THAT(mtrun->OutLines(),
                AllOf(Contains("[default0]:rank 0 ends"), Contains("[default1]:rank 1 ends")));
    EXPECT_EQ(mtrun->OutLines().size(), 40'002u);
  }
}

TEST_F(LimitsTest, ReadOnlyFileSystemLeavesTheJobWithoutLogFiles) {
  const std::string run = Script("run.sh", "echo rank $RANK, error file [$TORCHELASTIC_ERROR_FILE]\n");
  const auto mtrun = Below({}, {run}, {{"TMPDIR", "/proc"}, {"HOME", "/proc"}, {"XDG_STATE_HOME", "/proc"}});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(),
              AllOf(HasSubstr("no log files are written"), HasSubstr("rank 0, error file []")));
  const auto requested = Below({}, {"--log_dir", "/proc/logs", run});
  EXPECT_EQ(requested->Wait(), 2) << "a folder that the user names must be writable\n" << requested->Text();
}

/// Of all limits, mtrun needs about 14 processes and threads for two workers.
TEST_F(LimitsTest, LackOfThreadsIsOneSentence) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  const std::string user = absl::StrCat(70'000 + getpid() % 100'000);
  for (const char* limit : {"4", "6", "8", "9"}) {
    // mtrun exits while other threads of it exist, which ThreadSanitizer would call a leak.
    const auto mtrun =
        Below({"setpriv", "--reuid", user, "--clear-groups", "--inh-caps", "+dac_read_search",
               "--ambient-caps", "+dac_read_search",  // a build below /root is in reach
               "prlimit", absl::StrCat("--nproc=", limit)},
              {"--nproc_per_node", "2", "sh", "-c", "echo ran"}, {{"TSAN_OPTIONS", "report_thread_leaks=0"}});
    EXPECT_EQ(mtrun->Wait(), 1) << mtrun->Text();
    EXPECT_THAT(mtrun->Text(),
                AllOf(HasSubstr("ulimit -u"), Not(HasSubstr("terminate called")), Not(HasSubstr("SIGABRT"))))
        << limit;
  }
}

class OpenFilesTest : public LimitsTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
  }
  /// Root could raise the limit again.
  std::vector<std::string> Files(int count) const {
    return {"prlimit",       absl::StrCat("--nofile=", count, ":", count),
            "setpriv",       "--bounding-set",
            "-sys_resource", "--inh-caps",
            "-sys_resource"};
  }
};

TEST_F(OpenFilesTest, WorkersRunWithoutLogsThatDoNotFit) {
  const std::string run = Script("run.sh", "echo rank $RANK ends\n");
  const auto mtrun = Below(Files(200), {"--nproc_per_node", "40", run});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_EQ(From(mtrun->OutLines(), "rank ").size(), 40u);
  EXPECT_THAT(mtrun->Text(),
              HasSubstr("40 workers need 264 open files, but ulimit -n allows 200: no log files"));
}

TEST_F(OpenFilesTest, WorkersThatDoNotFitAreRefusedBeforeTheFirstStarts) {
  const auto mtrun = Below(Files(128), {"--nproc_per_node", "40", "sh", "-c", "echo ran"});
  EXPECT_EQ(mtrun->Wait(), 2) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), AllOf(HasSubstr("ulimit -n allows 128"), Not(HasSubstr(":ran"))));
}

/// Containers of Debian 12 run on hosts with Linux 4.18.
TEST_F(LimitsTest, KernelWithoutNewSystemCallsSuffices) {
  if (!HavePython()) GTEST_SKIP() << "no python3 here";
  const std::vector<std::string> old = {"python3", support::TestFile("support/toys/old_kernel.py")};
  const std::string run = Script("run.sh",
                                 "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK = 1 ] || exit 3\n"
                                 "echo rank $RANK ends\n");
  const auto restarts = Below(old, {"--nproc_per_node", "2", "--max_restarts", "1", run});
  EXPECT_EQ(restarts->Wait(), 0) << restarts->Text();
  EXPECT_THAT(restarts->OutLines(), Contains("[default0]:rank 0 ends"));
  const auto stopped =
      Below(old, {"--nproc_per_node", "2", "--shutdown_timeout", "0.2",
                  Script("stay.sh", "trap '' TERM\necho ready\nwhile :; do sleep 0.1; done\n")});
  ASSERT_TRUE(stopped->WaitForLines("ready", 2)) << stopped->Text();
  stopped->Signal(SIGTERM);
  EXPECT_EQ(stopped->Wait(kSoon), 128 + SIGTERM) << stopped->Text();
}

/// mpirun sends SIGKILL to mtrun 1 s after SIGTERM. Its workers are stopped by then, and it has said so.
TEST_F(LimitsTest, OpenMpiLeavesTimeToStopAndToSaySo) {
  const std::vector<std::string> mpirun = {"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n",
                                           "1"};
  if (access("/usr/bin/mpirun.openmpi", X_OK) != 0) GTEST_SKIP() << "no Open MPI here";
  const std::string run =
      Script("run.sh",
             "trap 'sleep 0.3; echo saved; exit 0' TERM\n[ \"$1\" = slow ] && trap '' TERM\n"
             "echo ready\nwhile :; do sleep 0.1; done\n");
  for (const char* kind : {"quick", "slow"}) {
    const auto mtrun = Below(mpirun, {run, kind});
    ASSERT_TRUE(mtrun->WaitForLine("ready")) << mtrun->Text();
    EXPECT_THAT(mtrun->Text(), HasSubstr("--shutdown_timeout is 800 ms instead of 30.0 s"));
    mtrun->Signal(SIGTERM);
    mtrun->Wait(kSoon);
    EXPECT_THAT(mtrun->Text(),
                HasSubstr(std::string(kind) == "quick" ? "saved" : "some workers still run after 800 ms"));
  }
}

}  // namespace
}  // namespace mtrun::e2e

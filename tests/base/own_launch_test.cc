#include "base/own_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/unix_address.h"

namespace mtrun {
namespace {

using testing::ElementsAre;

/// Returns the environment of a worker in step 7.0.
EnvironmentMap OfAWorker() {
  EnvironmentMap environment = {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"HOME", "/h"}};
  environment["MTRUN_STEP"] = StepOf(environment);
  WorkerEnv worker;
  worker.rank = 1;
  worker.world_size = 4;
  worker.master_port = 4000;
  worker.run_id = "job";
  worker.socket = "@s";
  worker.lease = 23;
  for (const auto& [name, value] : ToEnvironment(worker)) environment[name] = value;
  environment["MTRUN_WORKER"] = PlaceOf(environment);
  environment["TORCHELASTIC_TIMER_FILE"] = "/t";
  return environment;
}

std::vector<std::string> NamesLeft(EnvironmentMap environment, SocketOwner owner = SocketOwner::kAbove) {
  RemoveOtherJobs(environment, owner);
  std::vector<std::string> names;
  for (const auto& [name, value] : environment) names.push_back(name);
  return names;
}

EnvironmentMap Changed(const std::string& name, const std::string& value) {
  EnvironmentMap environment = OfAWorker();
  environment[name] = value;
  return environment;
}

TEST(OwnLaunch, WorkerKeepsItsVariables) {
  for (const SocketOwner owner : {SocketOwner::kAbove, SocketOwner::kUnknown}) {
    EnvironmentMap environment = OfAWorker();
    EXPECT_TRUE(IsBelowMtrun(environment, owner));
    RemoveOtherJobs(environment, owner);
    EXPECT_EQ(environment, OfAWorker());
  }
  EnvironmentMap of_older_mtrun = OfAWorker();
  of_older_mtrun.erase("MTRUN_STEP");
  of_older_mtrun.erase("MTRUN_WORKER");
  const EnvironmentMap before = of_older_mtrun;
  RemoveOtherJobs(of_older_mtrun, SocketOwner::kAbove);
  EXPECT_EQ(of_older_mtrun, before);
}

TEST(OwnLaunch, SubmittedJobAndNewStepKeepNothingOfTheWorker) {
  EXPECT_THAT(NamesLeft(Changed("SLURM_JOB_ID", "8")), ElementsAre("HOME", "SLURM_JOB_ID", "SLURM_STEP_ID"));
  EXPECT_THAT(NamesLeft(Changed("SLURM_STEP_ID", "")), ElementsAre("HOME", "SLURM_JOB_ID", "SLURM_STEP_ID"));
  EXPECT_THAT(NamesLeft(Changed("PBS_JOBID", "9")),
              ElementsAre("HOME", "PBS_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"));
  EXPECT_FALSE(IsBelowMtrun(Changed("SLURM_STEP_ID", "1"), SocketOwner::kAbove));
}

TEST(OwnLaunch, SocketOfAProcessThatIsNoAncestorIsAnotherJobs) {
  EXPECT_THAT(NamesLeft(OfAWorker(), SocketOwner::kElsewhere),
              ElementsAre("HOME", "SLURM_JOB_ID", "SLURM_STEP_ID"));
  EXPECT_FALSE(IsBelowMtrun(OfAWorker(), SocketOwner::kElsewhere));
  EXPECT_FALSE(IsBelowMtrun({}, SocketOwner::kUnknown));
}

TEST(OwnLaunch, LauncherBelowMtrunKeepsItsOwnVariables) {
  for (const char* name : {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"}) {
    EnvironmentMap environment = Changed(name, "2");
    EXPECT_TRUE(IsBelowMtrun(environment, SocketOwner::kAbove)) << "an mtrun there is in no step of its own";
    RemoveOtherJobs(environment, SocketOwner::kAbove);
    EXPECT_FALSE(environment.contains("MTRUN_SOCKET")) << name;
    EXPECT_FALSE(environment.contains("MTRUN_LEASE")) << name;
    EXPECT_EQ(environment.at("MASTER_PORT"), "4000") << name;
    EXPECT_EQ(environment.at(name), "2");
  }
}

/// Returns what the child of a fork finds.
SocketOwner AsSeenByAChild(const std::string& name) {
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(LookAtOwner(name)));
  int status = -1;
  waitpid(child, &status, 0);
  return static_cast<SocketOwner>(WEXITSTATUS(status));
}

TEST(OwnLaunch, OwnerOfASocketIsFoundAmongTheAncestors) {
  const std::string name = absl::StrCat("@mtrun-own-launch-test-", getpid());
  EXPECT_EQ(LookAtOwner(name), SocketOwner::kUnknown);
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = ParseUnixAddress(name);
  ASSERT_EQ(bind(listener.get(), address->get(), address->size), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  EXPECT_EQ(LookAtOwner(name), SocketOwner::kAbove);
  EXPECT_EQ(AsSeenByAChild(name), SocketOwner::kAbove);
}

/// The owner is the child of a child, so neither it nor its parent is above this process.
TEST(OwnLaunch, OwnerBesideThisProcessIsElsewhere) {
  const std::string name = absl::StrCat("@mtrun-own-launch-beside-", getpid());
  std::array<int, 2> up = {}, over = {};
  ASSERT_EQ(pipe(up.data()), 0);
  ASSERT_EQ(pipe(over.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(over[1]);
    if (fork() == 0) {
      const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
      const auto address = ParseUnixAddress(name);
      char byte = 'x';
      if (bind(listener, address->get(), address->size) == 0 && listen(listener, 8) == 0)
        byte = write(up[1], &byte, 1) == 1 && read(over[0], &byte, 1) >= 0 ? 'y' : 'z';
      _exit(0);
    }
    int status = 0;
    wait(&status);
    _exit(0);
  }
  char byte = 0;
  EXPECT_EQ(read(up[0], &byte, 1), 1);
  EXPECT_EQ(LookAtOwner(name), SocketOwner::kElsewhere);
  for (const int fd : {up[0], up[1], over[0], over[1]}) close(fd);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace mtrun

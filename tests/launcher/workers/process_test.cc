#include "launcher/workers/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/child_exit.h"
#include "base/file_limit.h"
#include "base/posix.h"
#include "base/worker_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/workers/numa.h"
#include "launcher/workers/process_tree.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::HasSubstr;

ProcessSpec Shell(const std::string& script, const EnvironmentMap& more = {}) {
  EnvironmentMap environment = CurrentEnvironment();
  for (const auto& [name, value] : more) environment[name] = value;
  return {"/bin/sh", {"sh", "-c", script}, environment};
}

ExitStatus WaitFor(const Process& process) {
  EXPECT_TRUE(AwaitExit(process.pid(), std::chrono::seconds(60)));
  const auto status = process.Poll();
  EXPECT_TRUE(status.has_value());
  return status.value_or(ExitStatus{-1, -1});
}

std::string ReadAll(UniqueFd fd) {
  std::string text;
  char bytes[1000];
  for (ssize_t size; (size = read(fd.get(), bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(size));
  return text;
}

TEST(ProcessTest, PassesArgumentsEnvironmentAndStreams) {
  auto process = Process::Start(Shell("echo out $GREETING; echo err >&2", {{"GREETING", "hello"}}));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(ReadAll(process->TakeOutput()), "out hello\n");
  EXPECT_EQ(ReadAll(process->TakeError()), "err\n");
  EXPECT_EQ(WaitFor(*process).code, 0);
}

TEST(ProcessTest, ReportsExitCodeAndSignal) {
  auto fails = Process::Start(Shell("exit 138"));
  ASSERT_TRUE(fails.ok());
  EXPECT_EQ(WaitFor(*fails).code, 138);
  EXPECT_EQ(fails->Poll()->signal, 0);  // again: it stays a zombie
  auto killed = Process::Start(Shell("kill -SEGV $$"));
  ASSERT_TRUE(killed.ok());
  EXPECT_EQ(WaitFor(*killed).signal, SIGSEGV);
}

TEST(ProcessTest, CanBeBoundToProcessors) {
  const std::vector<int> allowed = AllowedProcessors();
  ASSERT_FALSE(allowed.empty());
  ProcessSpec spec = Shell("grep Cpus_allowed_list /proc/self/status");
  spec.cpus = {allowed.back()};
  spec.memory_node = 0;
  auto process = Process::Start(spec);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_THAT(ReadAll(process->TakeOutput()), testing::EndsWith("\t" + RangesText({allowed.back()}) + "\n"));
  spec.cpus = {CPU_SETSIZE - 1};
  EXPECT_THAT(std::string(Process::Start(spec).status().message()), HasSubstr("execute /bin/sh"));
}

TEST(ProcessTest, FailedExecIsAnError) {
  EXPECT_THAT(std::string(Process::Start({"/no/such/file", {"x"}, {}}).status().message()),
              HasSubstr("/no/such/file"));
  EXPECT_EQ(Process::Start({"/etc/passwd", {"x"}, {}}).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(ProcessTest, LeadsASessionWithDefaultSignals) {
  sigset_t blocked, before;
  sigfillset(&blocked);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  auto process =
      Process::Start(Shell("cut -d' ' -f6 /proc/$$/stat; grep -E 'Sig(Blk|Ign)' /proc/self/status; kill "
                           "-TERM $$; echo not reached"));
  sigprocmask(SIG_SETMASK, &before, nullptr);
  ASSERT_TRUE(process.ok());
  const std::string text = ReadAll(process->TakeOutput());
  EXPECT_THAT(text, HasSubstr(std::to_string(process->pid())));
  EXPECT_THAT(text, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(text, HasSubstr("SigIgn:\t0000000000000000"));
  EXPECT_EQ(WaitFor(*process).signal, SIGTERM);
}

TEST(ProcessTest, OwnPipesAreNotInherited) {
  const auto list_descriptors = [] {
    auto process = Process::Start(Shell("ls /proc/$$/fd"));
    EXPECT_TRUE(process.ok());
    return ReadAll(process->TakeOutput());
  };
  const std::string alone = list_descriptors();
  const auto other = Process::Start(Shell("sleep 1000"));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(list_descriptors(), alone);
}

TEST(ProcessTest, OnlyKeptDescriptorsAreInherited) {
  const UniqueFd left(open("/dev/null", O_RDONLY)), kept(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ProcessSpec spec = Shell("for fd in $*; do [ -e /proc/$$/fd/$fd ] && echo has $fd.; done");
  for (const UniqueFd* fd : {&left, &kept}) spec.argv.push_back(std::to_string(fd->get()));
  spec.argv.insert(spec.argv.begin() + 3, "sh");
  spec.kept = {kept.get()};
  auto process = Process::Start(spec);
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(ReadAll(process->TakeOutput()), "has " + std::to_string(kept.get()) + ".\n");
}

TEST(ProcessTest, OpenFileLimitIsTheOriginalOne) {
  const rlimit before = InheritedFileLimit();
  RaiseFileLimit();
  EXPECT_EQ(FileLimit(), before.rlim_max);
  auto process = Process::Start(Shell("ulimit -n"));
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(ReadAll(process->TakeOutput()), std::to_string(before.rlim_cur) + "\n");
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(ProcessTest, StartKeepsThisProcesssSignalsAndResetsTheProgramsSignals) {
  sigset_t blocked, after;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &blocked, nullptr), 0);
  const auto before = signal(SIGUSR2, SIG_IGN);
  auto process = Process::Start(Shell("grep -E 'Sig(Blk|Ign)' /proc/self/status"));
  ASSERT_TRUE(process.ok());
  EXPECT_FALSE(Process::Start({.file = "/no/such/program", .argv = {"x"}, .environment = {}}).ok());
  EXPECT_EQ(signal(SIGUSR2, before), SIG_IGN);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  for (int number = 1; number < SIGRTMIN; ++number)
    EXPECT_EQ(sigismember(&after, number), number == SIGUSR1) << number;
  sigdelset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  const std::string none(16, '0');
  EXPECT_EQ(ReadAll(process->TakeOutput()), "SigBlk:\t" + none + "\nSigIgn:\t" + none + "\n");
}

TEST(ProcessTest, TerminalPassesEveryByte) {
  ProcessSpec spec = Shell("[ -t 1 ] && printf 'a terminal\\n\\001'; [ -t 2 ] || printf ', one'");
  spec.out_terminal = true;
  auto process = Process::Start(spec);
  ASSERT_TRUE(process.ok());
  EXPECT_EQ(ReadAll(process->TakeOutput()), "a terminal\n\1, one");
}

TEST(ProcessTest, SignalsReachTheWholeGroup) {
  const support::Mark mark;
  auto process = Process::Start(Shell("sleep 1000 & sleep 1000", {{support::Mark::kVariable, mark.value()}}));
  ASSERT_TRUE(process.ok());
  ASSERT_TRUE(mark.WaitForAlive(3));
  EXPECT_TRUE(GroupIsAlive(process->pid(), ListProcesses()));
  process->Signal(SIGTERM);
  EXPECT_EQ(WaitFor(*process).signal, SIGTERM);
  EXPECT_TRUE(mark.WaitForNone(support::kPatience));
  // A terminating process has no environment, and so no mark, shortly before it becomes a zombie; such
  // processes do not count.
  const auto end = std::chrono::steady_clock::now() + support::kPatience;
  while (GroupIsAlive(process->pid(), ListProcesses())) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "a process of the group is left";
    std::this_thread::yield();
  }
}

TEST(ProcessTest, DestructionKillsAndReaps) {
  const support::Mark mark;
  pid_t pid = 0;
  {
    auto process = Process::Start(
        Shell("trap '' TERM; sleep 1000 & sleep 1000", {{support::Mark::kVariable, mark.value()}}));
    ASSERT_TRUE(process.ok());
    pid = process->pid();
    ASSERT_TRUE(mark.WaitForAlive(3));
  }
  EXPECT_TRUE(mark.WaitForNone(support::kPatience));
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1) << "the leader was not reaped";
}

TEST(ProcessTreeTest, DescendantsAreListedParentsFirst) {
  const std::vector<ProcessInfo> processes = {
      {5, 4, 1, 'S'}, {2, 1, 1, 'S'}, {4, 2, 1, 'S'}, {9, 8, 1, 'S'}, {3, 1, 1, 'Z'}};
  std::vector<pid_t> pids;
  for (const ProcessInfo& process : DescendantsOf(1, processes)) pids.push_back(process.pid);
  EXPECT_THAT(pids, testing::ElementsAre(2, 3, 4, 5));
  EXPECT_TRUE(DescendantsOf(77, processes).empty());
}

}  // namespace
}  // namespace mtrun::launcher

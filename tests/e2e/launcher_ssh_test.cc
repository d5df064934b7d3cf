// mtrun --hosts: jobs on other machines over real ssh and sshd, each host in a network namespace.
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/e2e/sshd.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

/// Returns the ssh processes that are children of `mtrun`.
std::vector<pid_t> SshsOf(const Program& mtrun) {
  const std::string all =
      support::ReadText(absl::StrCat("/proc/", mtrun.pid(), "/task/", mtrun.pid(), "/children"));
  std::vector<pid_t> pids;
  for (const std::string& pid : std::vector<std::string>(absl::StrSplit(all, ' ', absl::SkipEmpty())))
    pids.push_back(std::stoi(pid));
  return pids;
}

std::string CommandLineOf(pid_t pid) {
  std::string words = support::ReadText(absl::StrCat("/proc/", pid, "/cmdline"));
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

TEST_F(SshTest, TwoHostsRunOneJob) {
  const auto one = Sshd(1), two = Sshd(2);
  const std::string script = Script(
      "run.sh",
      "echo rank $RANK of $WORLD_SIZE on $(hostname) in $(pwd) says \"$SAYS\" with \"$1\"\nsleep 0.2\n");
  const auto mtrun = Start({"--hosts", "one,two:2", "--export", "SAYS=it's $HOME", script, "a b'c"});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  const std::string tail = absl::StrCat(" in ", folder_.path(), " says it's $HOME with a b'c");
  EXPECT_THAT(
      From(mtrun->OutLines(), ""),
      UnorderedElementsAre("one: rank 0 of 3 on node1" + tail, "two: [default0]:rank 1 of 3 on node2" + tail,
                           "two: [default1]:rank 2 of 3 on node2" + tail))
      << mtrun->Text();
}

TEST_F(SshTest, HostfileNamesHostsAndTheirWorkers) {
  const auto one = Sshd(1), two = Sshd(2);
  support::WriteText(folder_.File("hosts"), "# who takes part\none slots=2\n\ntwo  # one worker\n");
  const std::string script = Script("run.sh", "echo rank $RANK of $WORLD_SIZE on $(hostname)\n");
  const auto mtrun = Start({"--hostfile", folder_.File("hosts"), script});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(From(mtrun->OutLines(), "rank "),
              UnorderedElementsAre("rank 0 of 3 on node1", "rank 1 of 3 on node1", "rank 2 of 3 on node2"))
      << mtrun->Text();
  support::WriteText(folder_.File("hosts"), "one\ntwo slots=many\n");
  const auto endless = Start({"--hostfile", "/dev/zero", script});
  EXPECT_EQ(endless->Wait(), 2) << endless->Text();
  EXPECT_THAT(endless->Text(), HasSubstr("/dev/zero is no list of hosts"));
  const auto wrong = Start({"--hostfile", folder_.File("hosts"), script});
  EXPECT_EQ(wrong->Wait(), 2) << wrong->Text();
  EXPECT_THAT(wrong->Text(), AllOf(HasSubstr("--hostfile"), HasSubstr("2"), HasSubstr("slots=many")));
}

/// "two" admits only "one"; the configuration routes through it.
TEST_F(SshTest, HostBehindAJumpHostJoins) {
  const auto one = Sshd(1), two = Sshd(2, absl::StrCat("AllowUsers root@", network_->Address(1)));
  const std::string script = Script("run.sh", "echo rank $RANK of $WORLD_SIZE on $(hostname)\n");
  const auto direct = Start({"--hosts", "two,one", script});
  EXPECT_EQ(direct->Wait(), 1) << direct->Text();
  EXPECT_THAT(direct->Text(), HasSubstr("two cannot be reached"));
  const std::string client = support::ReadText(folder_.File("client"));
  support::WriteText(folder_.File("client"), "Host two\n  ProxyJump one\n" + client);
  const auto mtrun = Start({"--hosts", "two,one", script});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(mtrun->OutLines(),
              UnorderedElementsAre("two: rank 0 of 2 on node2", "one: rank 1 of 2 on node1"));
}

/// Other users can see command lines and environments on either machine.
TEST_F(SshTest, TokenIsNotOnAnyCommandLine) {
  const auto one = Sshd(1), two = Sshd(2);
  const auto mtrun = Start({"--hosts", "one,two", Script("run.sh", "echo ready; sleep 1000\n")});
  ASSERT_TRUE(mtrun->WaitForLines("ready", 2)) << mtrun->Text();
  ASSERT_EQ(SshsOf(*mtrun).size(), 2u);
  for (const pid_t ssh : SshsOf(*mtrun)) {
    EXPECT_THAT(CommandLineOf(ssh), HasSubstr("BatchMode=yes"));
    EXPECT_THAT(support::ReadText(absl::StrCat("/proc/", ssh, "/environ")), Not(HasSubstr(support::kToken)));
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::isdigit(static_cast<unsigned char>(name[0]))) continue;
    EXPECT_THAT(CommandLineOf(std::stoi(name)), Not(HasSubstr(support::kToken)));
  }
  mtrun->Signal(SIGTERM);
  EXPECT_EQ(mtrun->Wait(), 128 + SIGTERM) << mtrun->Text();
}

TEST_F(SshTest, UnreachableHostIsNamedAndNothingStarts) {
  const auto one = Sshd(1);
  const auto mtrun = Start({"--hosts", "one,two", Touch()});
  EXPECT_EQ(mtrun->Wait(), 1) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), AllOf(HasSubstr("two cannot be reached"), HasSubstr("Connection refused"),
                                   HasSubstr("needs 2 hosts")));
  EXPECT_THAT(Ran(), testing::IsEmpty());
}

TEST_F(SshTest, UnreachableHostAboveTheMinimumIsRetried) {
  const auto one = Sshd(1);
  const auto mtrun =
      Start({"--hosts", "two,one", "--nnodes", "1:2",
             Script("run.sh", "echo $(hostname) of $WORLD_SIZE\n[ $WORLD_SIZE = 2 ] || sleep 1000\n")});
  ASSERT_TRUE(mtrun->WaitForLine("one: node1 of 1", kSoon)) << mtrun->Text();
  EXPECT_TRUE(mtrun->WaitForLine("two cannot be reached", Seconds(0))) << mtrun->Text();
  const auto two = Sshd(2);
  EXPECT_TRUE(mtrun->WaitForLine("two is connected now", kSoon)) << mtrun->Text();
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(From(mtrun->OutLines(), " of 2"), testing::SizeIs(2)) << mtrun->Text();
}

TEST_F(SshTest, CtrlCEndsAllProcesses) {
  const auto one = Sshd(1), two = Sshd(2);
  const auto mtrun = Start({"--hosts", "one:2,two:2", Script("run.sh", "echo ready; sleep 1000\n")});
  ASSERT_TRUE(mtrun->WaitForLines("ready", 4)) << mtrun->Text();
  // Like a terminal, to the whole group.
  kill(-mtrun->pid(), SIGINT);
  EXPECT_EQ(mtrun->Wait(), 128 + SIGINT) << mtrun->Text();
  EXPECT_TRUE(mark_.WaitForNone(Seconds(5)));
}

TEST_F(SshTest, LostConnectionEndsItsHostAndAJobThatNeedsIt) {
  const auto one = Sshd(1), two = Sshd(2);
  const auto mtrun = Start({"--hosts", "one,two", Script("run.sh", "echo ready; sleep 1000\n")});
  ASSERT_TRUE(mtrun->WaitForLines("ready", 2)) << mtrun->Text();
  for (const pid_t ssh : SshsOf(*mtrun)) {
    if (absl::StrContains(CommandLineOf(ssh), "-- two ")) kill(ssh, SIGKILL);
  }
  EXPECT_EQ(mtrun->Wait(), 1) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), HasSubstr("the connection to two is lost: ssh was ended by SIGKILL"));
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

/// Neither end is notified: ssh probes (ServerAliveInterval), and the host's mtrun misses its 5 s heartbeat.
TEST_F(SshTest, LongCutNetworkEndsItsHostAndAJobThatNeedsIt) {
  const auto one = Sshd(1), two = Sshd(2);
  const auto mtrun = Start({"--hosts", "one,two", Script("run.sh", "echo ready; sleep 1000\n")});
  ASSERT_TRUE(mtrun->WaitForLines("ready", 2)) << mtrun->Text();
  ASSERT_TRUE(network_->SetLink(2, false).ok());
  EXPECT_EQ(mtrun->Wait(), 1) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), AllOf(HasSubstr("the connection to two is lost"), HasSubstr("not responding")));
  EXPECT_TRUE(mark_.WaitForNone(support::kPatience)) << "a host that nobody reaches stops by itself";
  // Its sshd would keep sending for a quarter of an hour.
  if (const pid_t session = ChildOf(two->pid()); session > 0) kill(session, SIGKILL);
}

TEST_F(SshTest, NothingOutlivesAKilledMtrun) {
  const auto one = Sshd(1), two = Sshd(2);
  const auto mtrun = Start({"--hosts", "one,two", Script("run.sh", "echo ready; sleep 1000\n")});
  ASSERT_TRUE(mtrun->WaitForLines("ready", 2)) << mtrun->Text();
  mtrun->Signal(SIGKILL);
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

TEST_F(SshTest, FailureHasItsBoxAndStatus) {
  const auto one = Sshd(1), two = Sshd(2);
  const auto mtrun =
      Start({"--hosts", "one,two",
             Script("run.sh", "[ $RANK = 1 ] && echo the cause >&2 && exit 255\nsleep 1000\n")});
  EXPECT_EQ(mtrun->Wait(), 255) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), AllOf(HasSubstr("run.sh FAILED"), HasSubstr("two: the cause")));
}

TEST_F(SshTest, HostThatAsksForAPasswordIsNamed) {
  const auto one = Sshd(1, "PubkeyAuthentication no\nPasswordAuthentication yes"), two = Sshd(2);
  const auto asks = Start({"--hosts", "one", "x"});
  EXPECT_EQ(asks->Wait(), 1) << asks->Text();
  EXPECT_THAT(asks->Text(), HasSubstr("one cannot be reached: it asks for a password"));
  support::WriteText(folder_.File("known"), "");
  const auto unknown = Start({"--hosts", "two", "x"});
  EXPECT_EQ(unknown->Wait(), 1) << unknown->Text();
  EXPECT_THAT(unknown->Text(), HasSubstr("two cannot be reached: its host key is unknown or has changed"));
}

TEST_F(SshTest, MissingProgramOrFolderOnAHostIsNamed) {
  const auto one = Sshd(1);
  const auto mtrun = Start({"--hosts", "one", "--ssh_mtrun", "/nowhere/mtrun", "x"});
  EXPECT_EQ(mtrun->Wait(), 1) << mtrun->Text();
  EXPECT_THAT(mtrun->Text(), HasSubstr("there is no mtrun at /nowhere/mtrun"));
  const auto folder = Start({"--hosts", "one", "--ssh_folder", "/nowhere", "x"});
  EXPECT_EQ(folder->Wait(), 2) << folder->Text();
  EXPECT_THAT(folder->Text(), HasSubstr("/nowhere"));
}

TEST_F(SshTest, StandardInputIsNotForwarded) {
  const auto one = Sshd(1), two = Sshd(2);
  const std::string run = Script("run.sh", "while read -r line; do echo got $line; done; echo end\n");
  const std::vector<std::string> typed = {"sh", "-c", "echo typed | \"$@\"", "sh"};
  Program mtrun(network_->On(0, Words(typed, {Mtrun(), "--ssh", "ssh -F " + folder_.File("client"), "--hosts",
                                              "one,two", run})),
                Environment(), folder_.path());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), UnorderedElementsAre("one: end", "two: end"));
}

/// Simulates a process that a job has left on its host, here without an sshd, so it is on this host. The
/// console takes less than is written, from the job's own output on, so that there is always something to
/// read; even more if the pipe is large.
TEST_F(LauncherTest, OutputAfterTheEndOfAnSshJobDelaysNothing) {
  const std::string slowly =
      "{ \"$@\"; echo it ended with $? >&2; } | "
      "while [ $(head -c 65536 | wc -c) -gt 0 ]; do sleep 0.01; done";
  const std::string large = "python3 -c 'import fcntl; fcntl.fcntl(1, 1031, 1 << 20)'\n";  // F_SETPIPE_SZ
  const std::string job = Script("run.sh", "yes | head -c 6000000\nexit 7\n");
  for (const std::string after : {"exec yes", "setsid yes & yes | head -c 1000000; exit 0"}) {
    const std::string ssh =
        Script(absl::StrCat("ssh", after.size()),
               absl::StrCat(large, "for command; do :; done\nsh -c \"$command\"\n", after, "\n"));
    Program mtrun({"sh", "-c", slowly, "sh", Mtrun(), "--ssh", ssh, "--hosts", "one", job}, Environment(),
                  folder_.path());
    EXPECT_TRUE(mtrun.WaitForLine("it ended with 7")) << after << ": " << mtrun.Text();
    EXPECT_TRUE(mtrun.WaitForLine("the rest of the output of one is missing here", Seconds(0)))
        << after << ": " << mtrun.Text();
  }
}

/// Simulates an ssh that forwards the end while its standard error is still full: output after the end must
/// reach even a slow console.
TEST_F(LauncherTest, OutputHeldBySshAfterTheEndReachesASlowConsole) {
  const std::string slow = folder_.File("slow.py");
  support::WriteText(slow,
                     "import os, time\n"
                     "said = b''\n"
                     "while piece := os.read(0, 1 << 16):\n"
                     "    said += piece\n"
                     "    time.sleep(0.04)\n"
                     "os.write(1, said[-16384:])\n");
  const std::string job = Script(
      "run.sh", "yes | head -c 6000000\nseq -f 'line %.0f of many' 150000 >&2\necho LAST >&2\nexit 7\n");
  const std::string ssh =
      Script("ssh", absl::StrCat("for command; do :; done\nsh -c \"$command\" 2>", folder_.File("held"),
                                 "\ncat ", folder_.File("held"), " >&2\n"));
  Program mtrun({"sh", "-c", "{ \"$@\"; echo it ended with $?; } 2>&1 | python3 " + slow, "sh", Mtrun(),
                 "--ssh", ssh, "--hosts", "one", job},
                Environment(), folder_.path());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("LAST"), HasSubstr("it ended with 7")));
}

/// A bar of one worker passes two mtruns by the rules of the second, those of several workers by both.
TEST_F(SshTest, UnfinishedLinesAppearInAPipe) {
  const auto one = Sshd(1), two = Sshd(2);
  const std::string go = folder_.File("go");
  const auto mtrun =
      Start({"--hosts", "one,two:2",
             Script("bar.sh", absl::StrCat("printf '\\r rank '$RANK\nwhile [ ! -e ", go,
                                           " ]; do sleep 0.05; done\nprintf '\\r end '$RANK\n"))});
  EXPECT_TRUE(mtrun->WaitForLine("one:  rank 0")) << mtrun->Text();
  EXPECT_TRUE(mtrun->WaitForLine("two: [default0]: rank 1")) << mtrun->Text();
  EXPECT_TRUE(mtrun->WaitForLine("two: [default1]: rank 2")) << mtrun->Text();
  support::WriteText(go, "");
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(From(mtrun->OutLines(), " end"), testing::SizeIs(3)) << mtrun->Text();
}

/// A single host's output equals the program's.
TEST_F(SshTest, OutputOfASingleHostIsUnchanged) {
  const auto one = Sshd(1);
  const auto mtrun = Start({"--hosts", "one", Script("run.sh", "printf 'a\\nb'\n")});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(mtrun->OutLines(), testing::ElementsAre("a", "b"));
}

}  // namespace
}  // namespace mtrun::e2e

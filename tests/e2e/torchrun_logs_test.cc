// The checks of torchrun's own tests on logs, error files, health and timers, applied to mtrun; and
// misbehaving workers. The numbers are those of docs/torchrun_tests.md.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/either.h"
#include "tests/support/tcp_client.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

/// Helpers for the workers' logs under either launcher.
template <typename Base>
class LogsTest : public Base {
 protected:
  std::string Speak() const { return Base::Script("speak.sh", "echo out $RANK\necho err $RANK >&2\n"); }
  /// Flags for two workers with logs in "logs".
  std::vector<std::string> Flags(const std::vector<std::string>& more) const {
    return Words(
        {"--standalone", "--log-dir", Base::folder_.File("logs"), "--nproc_per_node=2", "--no_python"}, more);
  }
  /// Returns a log's text, or "(absent)" if the file does not exist.
  std::string Log(int rank, const std::string& name) const {
    const std::string path = absl::StrCat(Base::RunFolder("logs"), "/attempt_0/", rank, "/", name);
    return std::filesystem::exists(path) ? support::ReadText(path) : "(absent)";
  }
};

// ---- shared with torchrun ----

class Logs : public LogsTest<EitherTest> {};
MT_UNDER_EITHER(Logs);

struct RedirectCase {
  std::string flag;
  std::vector<std::string> out, err;            // the rest, for the console
  std::vector<std::string> out_file, err_file;  // torchrun's files; mtrun's contain everything
};

TEST_P(Logs, Behaviour63RedirectsRemoveStreamsFromTheConsole) {
  const std::vector<std::string> out = {"out 0", "out 1"}, err = {"err 0", "err 1"}, none;
  const std::string absent = "(absent)";
  for (const RedirectCase& one : std::vector<RedirectCase>{
           {"--redirects=0", out, err, {absent, absent}, {absent, absent}},
           {"--redirects=1", none, err, {"out 0\n", "out 1\n"}, {absent, absent}},
           {"-r=2", out, none, {absent, absent}, {"err 0\n", "err 1\n"}},
           {"--redirect=3", none, none, {"out 0\n", "out 1\n"}, {"err 0\n", "err 1\n"}},
           {"--redirects=0:3,1:1", none, {"err 1"}, {"out 0\n", "out 1\n"}, {"err 0\n", absent}}}) {
    std::filesystem::remove_all(folder_.File("logs"));
    const auto run = Start(Flags({one.flag, Speak()}));
    EXPECT_EQ(run->Wait(), 0) << run->Text();
    EXPECT_THAT(From(run->OutLines(), "out "), testing::UnorderedElementsAreArray(one.out)) << one.flag;
    EXPECT_THAT(From(run->ErrLines(), "err "), testing::UnorderedElementsAreArray(one.err)) << one.flag;
    for (const int rank : {0, 1}) {
      const auto i = static_cast<size_t>(rank);
      EXPECT_EQ(Log(rank, "stdout.log"), torchrun() ? one.out_file[i] : out[i] + "\n") << one.flag;
      EXPECT_EQ(Log(rank, "stderr.log"), torchrun() ? one.err_file[i] : err[i] + "\n") << one.flag;
    }
  }
}

TEST_P(Logs, Behaviour64And65TeeShowsRedirectedOutputWithAPrefix) {
  const auto run = Start(Flags({"--role=r", "--redirects=3", "--tee=0:1", Speak()}),
                         {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${role_name}/${local_rank}/${rank}: "}});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(From(run->OutLines(), "r/"), ElementsAre("r/0/0: out 0"));
  EXPECT_THAT(From(run->ErrLines(), "err "), IsEmpty());
  EXPECT_EQ(Log(0, "stdout.log"), "out 0\n");
  EXPECT_EQ(Log(1, "stderr.log"), "err 1\n");
}

TEST_P(Logs, Behaviour72LogFolderIsCreatedUnlessAFileExists) {
  const auto nested =
      Start({"--standalone", "-r=3", "--log_dir", folder_.File("a/b/c"), "--no_python", Speak()});
  EXPECT_EQ(nested->Wait(), 0) << nested->Text();
  EXPECT_THAT(RunFolder("a/b/c"), Not(IsEmpty()));
  const auto blocked = Start({"--standalone", "--log_dir", Speak(), "--no_python", Speak()});
  EXPECT_EQ(blocked->Wait(), Refused());
  EXPECT_THAT(blocked->Text(), AllOf(HasSubstr("speak.sh"), Not(HasSubstr("out 0"))));
}

TEST_P(Logs, Behaviour73FileTimerKillsAHungWorker) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  const auto without =
      Start({"--standalone", "--no_python", Script("timer.sh", "echo timer [$TORCHELASTIC_TIMER_FILE]\n")});
  EXPECT_EQ(without->Wait(), 0);
  EXPECT_THAT(From(without->OutLines(), "timer"), ElementsAre("timer []"));
  // Writes what torch.distributed.elastic.timer.FileTimerClient writes.
  support::WriteText(folder_.File("hang.py"),
                     "import json, os, time\n"
                     "def send(scope, at):\n"
                     "  with open(os.environ['TORCHELASTIC_TIMER_FILE'], 'w') as pipe:\n"
                     "    pipe.write(json.dumps({'version': 1, 'pid': os.getpid(), 'scope_id': scope,\n"
                     "                           'expiration_time': at, 'signal': 9}) + '\\n')\n"
                     "soon = time.time() + 4\n"  // far more than opening the pipe twice takes
                     "send('released', soon)\n"
                     "send('released', -1)\n"
                     "while time.time() < soon + 0.5: time.sleep(0.1)\n"
                     "print('still here', flush=True)\n"
                     "send('step', time.time() + 0.1)\n"
                     "time.sleep(1000)\n");
  const auto run =
      Start({"--standalone", folder_.File("hang.py")}, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}});
  const std::optional<int> status = run->Wait();
  EXPECT_EQ(status, torchrun() && status == 1 ? 1 : 128 + SIGKILL)
      << run->Text();  // torchrun may kill itself
  EXPECT_THAT(run->Text(), HasSubstr("still here"));
  if (!torchrun()) {
    EXPECT_THAT(run->Text(), AllOf(HasSubstr("SIGKILL"), HasSubstr("the timer \"step\" of process ")));
  }
}

TEST_P(Logs, OutputOfASingleWorkerIsUnchanged) {
  const std::string script =
      Script("bytes.sh", "printf '{\"a\": 1}\\r50%%\\001\\n  no end'; echo a prompt >&2\n");
  const std::string whole = absl::StrJoin(Command({"--standalone", "--no_python", script}), " ");
  Program run({"sh", "-c", absl::StrCat(whole, " > ", folder_.File("r.json"))}, Environment());
  EXPECT_EQ(run.Wait(), 0) << run.Text();
  EXPECT_EQ(support::ReadText(folder_.File("r.json")), "{\"a\": 1}\r50%\001\n  no end");
  EXPECT_THAT(run.ErrLines(), testing::Contains("a prompt"));
}

TEST_P(Logs, SingleWorkerOnATerminalGetsATerminal) {
  if (!HavePython()) GTEST_SKIP() << "there is no python3";
  support::WriteText(folder_.File("ask.py"),
                     "import os, sys\n"
                     "print('TTY', sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty())\n"
                     "print('GOT', input('name? '), os.get_terminal_size().columns)\n");
  // A separate terminal, into which "Eve" is typed once the prompt is there.
  support::WriteText(folder_.File("type.py"),
                     "import fcntl, os, pty, struct, sys, termios\n"
                     "pid, master = pty.fork()\n"
                     "if pid == 0:\n"
                     "    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 111, 0, 0))\n"
                     "    os.execvp(sys.argv[1], sys.argv[1:])\n"
                     "text, typed = b'', False\n"
                     "while True:\n"
                     "    try: more = os.read(master, 1000)\n"
                     "    except OSError: break\n"
                     "    if not more: break\n"
                     "    text += more\n"
                     "    if b'name? ' in text and not typed: typed = os.write(master, b'Eve\\n') > 0\n"
                     "print(text.decode().replace('\\r', ''))\n"
                     "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n");
  Program run(Words({"python3", folder_.File("type.py")}, Command({"--standalone", folder_.File("ask.py")})),
              Environment());
  EXPECT_EQ(run.Wait(), 0) << run.Text();
  EXPECT_THAT(run.Text(), AllOf(HasSubstr("TTY True True True"), HasSubstr("GOT Eve 111")));
}

TEST_P(Logs, WrongHealthPortStopsNothing) {
  const auto run = Start({"--standalone", "--no_python", Script("speak.sh", "echo out $RANK\n")},
                         {{"TORCHELASTIC_HEALTH_CHECK_PORT", "http"}});
  EXPECT_EQ(run->Wait(), 0) << run->Text();
  EXPECT_THAT(run->OutLines(), ElementsAre("out 0"));
  if (!torchrun()) {
    EXPECT_THAT(run->Text(), HasSubstr("TORCHELASTIC_HEALTH_CHECK_PORT: \"http\""));
  }
}

// ---- mtrun's own ----

class TorchrunLogs : public LogsTest<LauncherTest> {};

TEST_F(TorchrunLogs, Behaviour65PrefixCanNameTheHost) {
  Program mtrun(
      Command(Flags({"--role=r", "--log-line-prefix-template=${hostname}/${role_name}/${rank} ", Speak()})),
      Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), UnorderedElementsAre(HostName() + "/r/0 out 0", HostName() + "/r/1 out 1"));
}

TEST_F(TorchrunLogs, Behaviour64RanksAboveNineCanBeNamed) {
  Program mtrun(Command({"--standalone", "--nproc_per_node=12", "-r", "3", "--tee", "11:1", Speak()}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), ElementsAre("[default11]:out 11"));
}

TEST_F(TorchrunLogs, ConsoleShowsOnlyFilteredLocalRanks) {
  Program mtrun(Command(Flags({"--local-ranks-filter=1", Speak()})), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), ElementsAre("[default1]:out 1"));
  EXPECT_EQ(Log(0, "stdout.log"), "out 0\n");
}

TEST_F(TorchrunLogs, ConsoleIsPlainOrPrefixed) {
  Program plain(Command(Flags({"--console=plain", Speak()})), Environment());
  EXPECT_EQ(plain.Wait(), 0) << plain.Text();
  EXPECT_THAT(plain.OutLines(), UnorderedElementsAre("out 0", "out 1"));
  Program prefixed(Command({"--standalone", "--console=prefix", Speak()}), Environment());
  EXPECT_EQ(prefixed.Wait(), 0) << prefixed.Text();
  EXPECT_THAT(prefixed.OutLines(), ElementsAre("[default0]:out 0"));
  Program teed(Command({"--standalone", "--tee=3", Speak()}), Environment());
  EXPECT_EQ(teed.Wait(), 0) << teed.Text();
  EXPECT_THAT(teed.OutLines(), ElementsAre("[default0]:out 0"));
}

TEST_F(TorchrunLogs, LogFilesAreBoundedUnlessRequested) {
  const std::string script =
      Script("run.sh", "head -c 40000000 /dev/zero | tr '\\0' x\necho; echo the end\n");
  Program mtrun({"sh", "-c", absl::StrCat(Mtrun(), " --standalone ", script, " > /dev/null")}, Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  uintmax_t kept = 0;
  std::string newest;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (!entry.is_regular_file() || !entry.path().filename().string().starts_with("stdout")) continue;
    kept += entry.file_size();
    if (entry.path().filename() == "stdout.log") newest = support::ReadText(entry.path());
  }
  EXPECT_GT(kept, uintmax_t{8} << 20);
  EXPECT_LT(kept, uintmax_t{17} << 20);
  EXPECT_THAT(newest, testing::EndsWith("\nthe end\n"));
}

TEST_F(TorchrunLogs, FilteredLinesAreDuplicated) {
  Program mtrun(Command(Flags({"--duplicate-stdout-filters=out 1,no,,thing", "--duplicate-stderr-filters=err",
                               Speak()})),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  const std::string attempt = RunFolder("logs") + "/attempt_0/";
  EXPECT_EQ(support::ReadText(attempt + "filtered_stdout.log"), "[default1]:out 1\n");
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(support::ReadText(attempt + "filtered_stderr.log"),
                                                      '\n', absl::SkipEmpty())),
              UnorderedElementsAre("[default0]:err 0", "[default1]:err 1"));
}

TEST_F(TorchrunLogs, ErrorNamesAnUnwritableLogFolder) {
  namespace fs = std::filesystem;
  fs::create_directory(folder_.File("closed"));
  fs::permissions(folder_.File("closed"), fs::perms::owner_read | fs::perms::owner_exec);
  fs::permissions(folder_.path(), fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
  // Root may write everywhere, so another user runs it.
  const std::vector<std::string> nobody = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  Program probe(Words(nobody, {Mtrun(), "--version"}), Environment());
  if (getuid() == 0 && probe.Wait() != 0)
    GTEST_SKIP() << "mtrun does not run as another user: " << probe.Text();
  const std::vector<std::string> command =
      Command({"--standalone", "--log_dir", folder_.File("closed") + "/logs", Speak()});
  Program mtrun(getuid() == 0 ? Words(nobody, command) : command, Environment());
  EXPECT_EQ(mtrun.Wait(), 2) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), AllOf(HasSubstr("--log_dir"), HasSubstr("closed"), HasSubstr("Permission denied"),
                                  Not(HasSubstr("out 0"))));
  fs::permissions(folder_.File("closed"), fs::perms::owner_all);
}

TEST_F(TorchrunLogs, DevNullMeansNoFiles) {
  Program mtrun(Command({"--standalone", "--log_dir=/dev/null",
                         Script("say.sh", "echo file [$TORCHELASTIC_ERROR_FILE]\n")}),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  EXPECT_THAT(mtrun.OutLines(), ElementsAre("file []"));
}

TEST_F(TorchrunLogs, Behaviour73HealthEndpointAnswersWhileOtherNodesFinish) {
  // Node 0 has finished and waits for node 1, like torchrun's exit barrier.
  const std::string script = Script("run.sh", absl::StrCat("[ $RANK = 0 ] || while [ ! -e ",
                                                           folder_.File("go"), " ]; do sleep 0.05; done\n"));
  const auto first =
      Agent("2", {"--node_rank=0", script}, {{"TORCHELASTIC_HEALTH_CHECK_PORT", "0"}, {"LOGLEVEL", "debug"}});
  const auto line = first->WaitForLine("the health endpoint answers on port ");
  ASSERT_TRUE(line) << first->Text();
  const int port = std::stoi(line->substr(line->find("port ") + 5));
  EXPECT_THAT(support::Ask(port, "GET / HTTP/1.0\r\n\r\n"),
              StartsWith("HTTP/1.1 200 OK"));  // before the job has formed
  EXPECT_THAT(support::Ask(port, "GET /readyz HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 503 "));
  const auto second = Agent("2", {"--node_rank=1", script});
  ASSERT_TRUE(first->WaitForLine("finished (1 of 2)", kSoon)) << first->Text();
  EXPECT_THAT(support::Ask(port, "GET / HTTP/1.0\r\n\r\n"), testing::EndsWith("alive\n"));
  EXPECT_THAT(support::Ask(port, "GET /readyz HTTP/1.0\r\n\r\n"), testing::EndsWith("ready\n"));
  support::WriteText(folder_.File("go"), "");
  EXPECT_EQ(first->Wait(), 0) << first->Text();
  EXPECT_EQ(second->Wait(), 0) << second->Text();
}

TEST_F(TorchrunLogs, EventLogRecordsTheWholeRun) {
  Program mtrun(
      Command({"--standalone", "--rdzv_id=job", "--max_restarts=1", "--event_log", folder_.File("events"),
               Script("run.sh", "exit $((1 - TORCHELASTIC_RESTART_COUNT))\n")}),
      Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
  std::vector<std::string> names;
  for (absl::string_view line :
       absl::StrSplit(support::ReadText(folder_.File("events")), '\n', absl::SkipEmpty())) {
    const auto record = nlohmann::json::parse(std::string(line));
    EXPECT_EQ(record["run_id"], "job");
    names.push_back(record["event"]);
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"rendezvous_connected", "workers_started", "worker_exited",
                                            "generation_dissolved", "workers_started", "worker_exited",
                                            "job_ended", "exit"}));
  Program wrong(Command({"--standalone", "--event_log=/no/such/folder/x", "true"}), Environment());
  EXPECT_NE(wrong.Wait(), 0);
  EXPECT_THAT(wrong.Text(), HasSubstr("--event_log"));
}

// ---- misbehaving workers ----

TEST_F(TorchrunLogs, BinaryAndEndlessLinesAreForwarded) {
  const std::string script = Script("run.sh", "head -c 300000 /dev/zero\nprintf '\\377\\376\\n'\n");
  Program mtrun(Command(Flags({script})), Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text().substr(0, 2000);
  EXPECT_EQ(Log(1, "stdout.log"), std::string(300'000, '\0') + "\xff\xfe\n");
}

/// A progress bar and an unfinished line can be followed in a file or a pipe. The worker continues only after
/// both have appeared.
TEST_F(TorchrunLogs, UnfinishedLinesAppearInAPipe) {
  const std::string go = folder_.File("go");
  const std::string script = Script(
      "bar.sh", absl::StrCat("printf loading\nprintf '\\r 1%%' >&2\nwhile [ ! -e ", go,
                             " ]; do sleep 0.05; done\n", "printf ' done\\n'\nprintf '\\r 2%%\\r' >&2\n"));
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{}, {"--tee=3"}, {"--console=plain"}}) {
    std::filesystem::remove(go);
    const auto run = std::make_unique<Program>(Command(Words(Flags(flags), {script})), Environment());
    ASSERT_TRUE(run->WaitForLines("loading", 2)) << run->Text();
    ASSERT_TRUE(run->WaitForLines(" 1%", 2)) << run->Text();
    support::WriteText(go, "");
    EXPECT_EQ(run->Wait(), 0) << run->Text();
    const bool plain = flags == std::vector<std::string>{"--console=plain"};
    const std::string first = plain ? "" : "[default0]:", second = plain ? "" : "[default1]:";
    EXPECT_THAT(run->OutLines(), UnorderedElementsAre(first + "loading", second + "loading",
                                                      first + "loading done", second + "loading done"));
    EXPECT_THAT(From(run->ErrLines(), " 2%"), SizeIs(2)) << run->Text();
    EXPECT_EQ(Log(0, "stderr.log"), "\r 1%\r 2%\r") << "the file has the bytes";
  }
}

TEST_F(TorchrunLogs, WorkerCanCloseItsOutput) {
  Program mtrun(Command(Flags({Script("run.sh", "echo before\nexec >&- 2>&-\nsleep 0.2\nexit 3\n")})),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 3) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("before"));
}

TEST_F(TorchrunLogs, GrandchildrenWithOpenOutputDoNotDelayTheEnd) {
  Program mtrun(Command(Flags({Script("run.sh", "setsid sleep 1000 &\necho done\n")})), Environment());
  EXPECT_EQ(mtrun.Wait(kSoon), 0) << mtrun.Text();
  for (const pid_t pid : mark_.Alive()) {  // they live on, and so does the process that forwards their output
    const std::string command = support::ReadText(absl::StrCat("/proc/", pid, "/comm"));
    if (command == "sleep\n") kill(pid, SIGKILL);
  }
  EXPECT_TRUE(mark_.WaitForNone(kSoon));
}

TEST_F(TorchrunLogs, FullDiskStopsOnlyTheLogs) {
  std::filesystem::create_directory(folder_.File("small"));
  // A separate mount namespace, so that the mount disappears with the program.
  const std::string inner =
      absl::StrCat("mount -t tmpfs -o size=64k none ", folder_.File("small"), " && exec ", Mtrun(),
                   " --standalone -r 3 --log_dir ", folder_.File("small"), " ",
                   Script("run.sh", "head -c 1000000 /dev/zero\necho trained >&2\n"));
  Program probe({"unshare", "-m", "sh", "-c", absl::StrCat("mount -t tmpfs none ", folder_.File("small"))},
                Environment());
  if (probe.Wait() != 0) GTEST_SKIP() << "no right to mount: " << probe.Text();
  Program mtrun({"unshare", "-m", "sh", "-c", inner}, Environment());
  EXPECT_EQ(mtrun.Wait(kSoon), 0) << mtrun.Text();
  EXPECT_THAT(From(mtrun.ErrLines(), "No space left on device"), SizeIs(1)) << mtrun.Text();
  EXPECT_THAT(mtrun.Text(), HasSubstr("could not be written to log files"));
}

TEST_F(TorchrunLogs, BlockedTerminalDelaysNothingElse) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  // 20 MB for a console that is never read; neither the files nor the end of the run wait for it.
  const std::string script =
      Script("run.sh", "yes 0123456789012345678901234567890123456789 | head -n 500000\n");
  Program mtrun({"sh", "-c",
                 absl::StrCat("exec ", Mtrun(), " --standalone --log_dir ", folder_.File("logs"), " ", script,
                              " >/proc/", getpid(), "/fd/", writer.get(), " 2>&1")},
                Environment());
  EXPECT_EQ(mtrun.Wait(Seconds(60)), 0) << mtrun.Text();
  EXPECT_EQ(Log(0, "stdout.log").size(), 500'000u * 41);
}

}  // namespace
}  // namespace mtrun::e2e

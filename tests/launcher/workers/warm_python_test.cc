#include "launcher/workers/warm_python.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/child_exit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::HasSubstr;

std::string ReadStream(UniqueFd fd) {
  std::string text;
  char bytes[4096];
  for (ssize_t size; (size = read(fd.get(), bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(size));
  return text;
}

class WarmPythonTest : public testing::Test {
 protected:
  void SetUp() override {
    if (support::Program({"python3", "-c", "import socket; socket.recv_fds"}).Wait() != 0)
      GTEST_SKIP() << "there is no python3 of 3.9 or later";
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // like the agent
  }

  /// Starts with the module "slow", whose import its workers can detect.
  void Start(const std::string& module = "slow") {
    support::WriteText(folder_.File("slow.py"), "import os\npid = os.getpid()\n");
    environment_["PYTHONPATH"] = folder_.path();
    environment_[support::Mark::kVariable] = mark_.value();
    auto started = WarmPython::Start("/usr/bin/python3", environment_, {module});
    ASSERT_TRUE(started.ok()) << started.status();
    warm_ = *std::move(started);
    const auto end = std::chrono::steady_clock::now() + support::kPatience;
    while (!warm_->IsReady() && warm_->IsAlive() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  ProcessSpec SpecOf(const std::string& script, const std::vector<std::string>& args = {}) {
    const std::string file = folder_.File("script.py");
    support::WriteText(file, script);
    ProcessSpec spec = {"/usr/bin/python3", {"/usr/bin/python3", "-u", file}, environment_};
    spec.argv.insert(spec.argv.end(), args.begin(), args.end());
    return spec;
  }

  ExitStatus WaitFor(const Process& process) {
    EXPECT_TRUE(AwaitExit(process.pid(), std::chrono::seconds(60)));
    return process.Poll().value_or(ExitStatus{-1, -1});
  }

  const support::Mark mark_;
  const support::TemporaryFolder folder_;
  EnvironmentMap environment_ = CurrentEnvironment();
  std::unique_ptr<WarmPython> warm_;
};

TEST_F(WarmPythonTest, ForkedWorkerEqualsAnExecutedOne) {
  Start();
  ASSERT_TRUE(warm_->IsReady());
  const UniqueFd kept(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ProcessSpec spec = SpecOf(
      "import os, slow, sys\n"
      "print(__name__, sys.argv[1:], os.environb[b'ONLY'], 'PATH' in os.environ, slow.pid != os.getpid())\n"
      "print(os.getpid() == os.getsid(0), sys.path[0] == os.path.dirname(__file__))\n"
      "print(os.readlink('/proc/self/fd/' + os.environ['KEPT']))\n"
      "print('to error', file=sys.stderr)\n"
      "sys.exit(7)\n",
      {"--x", "two words"});
  spec.environment = {{"ONLY", "this\xff"}, {"KEPT", std::to_string(kept.get())}};
  spec.kept = {kept.get()};
  auto worker = warm_->Fork(spec);
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(ReadStream(worker->TakeOutput()),
            "__main__ ['--x', 'two words'] b'this\\xff' False True\nTrue True\n/dev/null\n");
  EXPECT_EQ(ReadStream(worker->TakeError()), "to error\n");
  EXPECT_EQ(WaitFor(*worker).code, 7);
}

TEST_F(WarmPythonTest, ProgramKnowsItsFileAfterChdir) {
  Start();
  ASSERT_TRUE(warm_->IsReady());
  ProcessSpec spec = SpecOf("import os, sys\nos.chdir('/')\nprint(__file__, sys.argv, type(sys.argv))\n");
  const std::string whole = spec.argv.back(), relative = std::filesystem::relative(whole);
  const std::string app = folder_.File("app");
  std::filesystem::create_directory(app);
  std::filesystem::copy_file(whole, app + "/__main__.py");
  const auto said = [&](const std::string& word) {
    spec.argv = {"/usr/bin/python3", "-u", word, "--x"};
    auto worker = warm_->Fork(spec);
    return worker.ok() ? ReadStream(worker->TakeOutput()) : worker.status().ToString();
  };
  const std::string arguments = ", '--x'] <class 'list'>\n";
  EXPECT_EQ(said(relative), absl::StrCat(whole, " ['", relative, "'", arguments));
  const std::string folder = std::filesystem::relative(app);
  EXPECT_EQ(said(folder), absl::StrCat(app, "/__main__.py ['", folder, "'", arguments));
}

TEST_F(WarmPythonTest, WorkersAreChildrenOfTheCaller) {
  Start();
  ASSERT_TRUE(warm_->IsReady());
  for (int i = 0; i < 3; ++i) {
    auto worker = warm_->Fork(SpecOf("import os, slow\nprint(os.getppid(), slow.pid)\n"));
    ASSERT_TRUE(worker.ok()) << worker.status();
    EXPECT_EQ(ReadStream(worker->TakeOutput()), absl::StrCat(getpid(), " ", warm_->pid(), "\n"));
    EXPECT_EQ(WaitFor(*worker).code, 0);
  }
}

TEST_F(WarmPythonTest, ErrorAffectsOnlyItsWorker) {
  Start();
  ASSERT_TRUE(warm_->IsReady());
  auto worker = warm_->Fork(SpecOf("raise RuntimeError('of the script')\n"));
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_THAT(ReadStream(worker->TakeError()), HasSubstr("RuntimeError: of the script"));
  EXPECT_EQ(WaitFor(*worker).code, 1);
  auto killed = warm_->Fork(SpecOf("import os\nos.kill(os.getpid(), 9)\n"));
  ASSERT_TRUE(killed.ok()) << killed.status();
  EXPECT_EQ(WaitFor(*killed).signal, 9);
  EXPECT_TRUE(warm_->IsReady());
}

TEST_F(WarmPythonTest, MissingModuleKeepsItFromBecomingReady) {
  Start("no_such_module");
  EXPECT_FALSE(warm_->IsReady());
  EXPECT_THAT(ReadStream(warm_->TakeError()), HasSubstr("no_such_module"));
}

TEST_F(WarmPythonTest, KilledInterpreterIsNotReady) {
  Start();
  ASSERT_TRUE(warm_->IsReady());
  kill(warm_->pid(), SIGKILL);
  EXPECT_FALSE(warm_->Fork(SpecOf("pass\n")).ok());
  EXPECT_FALSE(warm_->IsReady());
}

}  // namespace
}  // namespace mtrun::launcher

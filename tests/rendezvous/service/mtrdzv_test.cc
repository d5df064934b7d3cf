// The stand-alone program: start, kill, restart at the same port, status.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/session/test_agent.h"
#include "tests/support/port.h"

extern char** environ;

namespace mtrun::rendezvous {
namespace {

using ::testing::HasSubstr;

/// A running mtrdzv with its standard output and error in a pipe; killed and reaped at the end.
class Program {
 public:
  explicit Program(const std::vector<std::string>& args) {
    const char* folder = std::getenv("MT_BIN");
    const std::string path = absl::StrCat(folder != nullptr ? folder : ".", "/mtrdzv");
    std::vector<char*> argv = {const_cast<char*>(path.c_str())};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    output_ = UniqueFd(ends[0]);
    const UniqueFd write_end(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
    posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
    EXPECT_EQ(posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ), 0) << path;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Program() {
    if (pid_ > 0) Stop(SIGKILL);
  }
  /// Reads until `text` has come or the output ends; returns the output so far.
  std::string ReadUntil(const std::string& text) {
    char buffer[4096];
    while (text.empty() || seen_.find(text) == std::string::npos) {
      const ssize_t n = read(output_.get(), buffer, sizeof(buffer));
      if (n <= 0) break;
      seen_.append(buffer, static_cast<size_t>(n));
    }
    return seen_;
  }
  std::string ReadAll() { return ReadUntil(""); }
  /// Makes the pipe so small that unread output fills it after a page.
  void NarrowOutput() { EXPECT_GT(fcntl(output_.get(), F_SETPIPE_SZ, 4096), 0); }
  /// Closes the reading end.
  void CloseOutput() { output_ = UniqueFd(); }
  std::string Endpoint() {
    const std::string text = ReadUntil("without TLS");
    const size_t begin = text.find("serving at ") + 11;
    return text.substr(begin, text.find(',', begin) - begin);
  }
  pid_t pid() const { return pid_; }
  /// Returns the wait status.
  int Stop(int signal) {
    kill(pid_, signal);
    return Wait();
  }
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string seen_;
};

SessionOptions Options(const std::string& endpoint) {
  SessionOptions options;
  options.endpoint = endpoint;
  options.insecure = true;
  options.job.heartbeats_missed = 20;
  return options;
}

TEST(Mtrdzv, AgentsContinueAfterItIsKilledAndRestarted) {
  const std::string endpoint = absl::StrCat("127.0.0.1:", support::FreePort());
  const std::vector<std::string> args = {"--insecure", "--endpoint", endpoint};
  auto first = std::make_unique<Program>(args);
  EXPECT_EQ(first->Endpoint(), endpoint);
  TestAgent agent("node1", Options(endpoint));
  agent.Offer();
  const Generation generation = agent.NextGeneration();
  first->Stop(SIGKILL);
  ASSERT_TRUE(agent.AwaitDisconnected());
  Program second(args);
  ASSERT_TRUE(agent.AwaitConnections(2));
  agent.Offer(1, generation);
  agent.session().Send(WorkersFinished{generation, false});
  const auto ended = agent.Next<JobEnded>();
  ASSERT_TRUE(ended.has_value());
  EXPECT_TRUE(ended->outcome.success);
  EXPECT_FALSE(agent.Has<GenerationDissolved>());
}

TEST(Mtrdzv, ShowsItsJobsAndStopsOnSigterm) {
  Program service({"--insecure", "--host", "127.0.0.1", "--port", "0"});
  const std::string endpoint = service.Endpoint();
  TestAgent agent("node1", Options(endpoint));
  agent.Offer(2);
  agent.NextGeneration();
  Program status({"status", endpoint, "--insecure"});
  const std::string text = status.ReadAll();
  EXPECT_EQ(status.Wait(), 0);
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "job none: running for .*: generation 1 with 1 node .of 1. and 2 workers"));
  EXPECT_THAT(text, ::testing::ContainsRegex("0 +node1 +127.0.0.1 +member +2 +0-1"));
  Program json({"status", endpoint, "--insecure", "--json"});
  EXPECT_THAT(json.ReadAll(), HasSubstr("\"phase\": \"running\""));
  EXPECT_EQ(json.Wait(), 0);
  const int ended = service.Stop(SIGTERM);
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
}

/// Joins and leaves a job of its own; the service logs some lines about it.
void ComeAndGo(const std::string& endpoint, const std::string& job_id) {
  SessionOptions options = Options(endpoint);
  options.job.job_id = job_id;
  TestAgent agent("node1", options);
  agent.Offer();
  ASSERT_TRUE(agent.Next<Assigned>().has_value()) << job_id;
  agent.session().Send(Leaving{"that was all"});
  EXPECT_TRUE(agent.session().Flush(kTestPatience)) << job_id;
}

TEST(Mtrdzv, AnswersAlthoughItsLogIsNotRead) {
  Program service({"--insecure", "--host", "127.0.0.1", "--port", "0"});
  const std::string endpoint = service.Endpoint();
  service.NarrowOutput();
  for (int i = 0; i < 40 && !HasFatalFailure(); ++i) ComeAndGo(endpoint, absl::StrCat("job", i));
  Program status({"status", endpoint, "--insecure"});
  EXPECT_THAT(status.ReadAll(), HasSubstr("no job: the service is up"));
  EXPECT_EQ(status.Wait(), 0);
  // All of it is there for later readers.
  kill(service.pid(), SIGTERM);
  const std::string log = service.ReadAll();
  EXPECT_THAT(log, HasSubstr("job39: job ended"));
  EXPECT_THAT(log, HasSubstr("stopping on SIGTERM"));
  const int ended = service.Wait();
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
}

TEST(Mtrdzv, OutlivesTheReaderOfItsLog) {
  Program service({"--insecure", "--host", "127.0.0.1", "--port", "0"});
  const std::string endpoint = service.Endpoint();
  service.CloseOutput();
  ComeAndGo(endpoint, "one");
  ComeAndGo(endpoint, "two");
  const int ended = service.Stop(SIGTERM);
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
}

TEST(Mtrdzv, ErrorsNameWrongFlags) {
  Program unknown({"--prot", "3"});
  EXPECT_THAT(unknown.ReadAll(), HasSubstr("--port"));
  EXPECT_EQ(WEXITSTATUS(unknown.Wait()), 2);
  Program status({"status"});
  EXPECT_THAT(status.ReadAll(), HasSubstr("mtrdzv status HOST:PORT"));
  EXPECT_EQ(WEXITSTATUS(status.Wait()), 2);
}

TEST(Mtrdzv, PortInUseIsAnError) {
  Program first({"--insecure", "--host", "127.0.0.1", "--port", "0"});
  Program second({"--insecure", "--endpoint", first.Endpoint()});
  EXPECT_THAT(second.ReadAll(), HasSubstr("the port is in use"));
  EXPECT_EQ(WEXITSTATUS(second.Wait()), 1);
}

}  // namespace
}  // namespace mtrun::rendezvous

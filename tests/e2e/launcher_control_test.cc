// External calls to a running job: the caller, the nodes' reactions, and the reports.
#include <signal.h>

#include "base/posix.h"
#include "tests/e2e/event_log.h"
#include "tests/e2e/launcher.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ControlTest : public LauncherTest {
 protected:
  /// Starts two nodes with a worker each.
  void StartBoth(const std::string& nnodes, const std::vector<std::string>& worker) {
    for (int rank = 0; rank < 2; ++rank) {
      nodes_.push_back(Agent(
          nnodes, Words({"--node_rank", absl::StrCat(rank), "--event_log",
                         folder_.File(absl::StrCat("events", rank)), "--rdzv_conf", "last_call_timeout=20"},
                        worker)));
      ASSERT_TRUE(rank > 0 || nodes_[0]->WaitForLine("hosting")) << nodes_[0]->Text();
    }
  }
  void StartToys(const std::string& nnodes) {
    StartBoth(nnodes, {support::BinaryFolder() + "/../tests/toy_worker", "cooperative"});
    for (const auto& node : nodes_)
      ASSERT_TRUE(node->WaitForLine("in generation 1: rank", kSoon)) << node->Text();
  }

  /// Returns the output and exit status of `mtrun`.
  std::pair<std::string, int> Ask(const std::vector<std::string>& args) const {
    Program mtrun(Command(args), Environment());
    const int status = mtrun.Wait().value_or(-1);
    return {mtrun.Text(), status};
  }
  /// Returns the id of the node with that rank.
  std::string IdOf(size_t rank) const {
    const auto json = nlohmann::json::parse(Ask({"--status", endpoint_, "--json"}).first);
    return json["jobs"][0]["nodes"][rank]["node_id"];
  }
  /// Returns the records of calls in the event log of that node.
  std::vector<nlohmann::json> CallsAt(int rank) const {
    return CallsIn(folder_.File(absl::StrCat("events", rank)));
  }
  /// "@host (pid 4711, from 127.0.0.1:": the caller in these tests.
  static std::string Me() { return absl::StrCat("@", HostName(), " (pid "); }

  std::vector<std::unique_ptr<Program>> nodes_;
};

TEST_F(ControlTest, TruncatedOutputIsAFailure) {
  StartToys("2");
  for (const std::vector<std::string>& question : {std::vector<std::string>{"--help"},
                                                   {"--version"},
                                                   {"--new_token"},
                                                   {"--print_completion", "bash"},
                                                   {"--trainer", "list"},
                                                   {"--doctor"},
                                                   {"--status", endpoint_},
                                                   {"--status", endpoint_, "--json"},
                                                   {"--status", endpoint_, "--watch"},
                                                   {"--logs", "0", endpoint_}}) {
    Program mtrun(Words({"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh"}, Command(question)),
                  Environment());
    EXPECT_EQ(mtrun.Wait(), 1) << question[0];
    EXPECT_THAT(mtrun.Text(), HasSubstr("mtrun: write to standard output: No space left on device"))
        << question[0];
  }
  for (const char* asked : {"--help", "--version"}) {
    Program service(
        {"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh", support::BinaryFolder() + "/mtrdzv", asked});
    EXPECT_EQ(service.Wait(), 1) << asked;
    EXPECT_THAT(service.Text(), HasSubstr("mtrdzv: write to standard output: No space left on device"));
  }
  EXPECT_EQ(Ask({"--stop", endpoint_}).second, 0);
}

/// A blocked console does not end a job.
TEST_F(ControlTest, JobContinuesIfItsConsoleIsFull) {
  Program mtrun(Words({"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh"},
                      Command({"--standalone", "--no_python", "/bin/sh", "-c", "echo said; exit 0"})),
                Environment());
  EXPECT_EQ(mtrun.Wait(), 0) << mtrun.Text();
}

TEST_F(ControlTest, DrainedNodeLeavesAndTheOthersContinue) {
  StartToys("1:2");
  const auto [unknown, unknown_status] = Ask({"--drain", "node9", endpoint_});
  EXPECT_EQ(unknown_status, 1);
  EXPECT_THAT(unknown,
              HasSubstr(absl::StrCat("\"node9\" is no node of job \"job\", which is of ", HostName())));
  const auto [other, other_status] = Ask({"--drain", "node9", endpoint_, "--rdzv_id", "other"});
  EXPECT_EQ(other_status, 1);
  EXPECT_THAT(other, HasSubstr("the service does not have job \"other\", but job"));

  const std::string id = IdOf(1);
  const auto [done, status] = Ask({"--drain", id, endpoint_});
  EXPECT_EQ(status, 0) << done;
  EXPECT_THAT(done, HasSubstr(absl::StrCat(id, " leaves job \"job\": ")));
  EXPECT_THAT(done, HasSubstr("the job continues with 1 node"));
  EXPECT_EQ(nodes_[1]->Wait(), 0) << nodes_[1]->Text();
  EXPECT_THAT(nodes_[1]->Text(), AllOf(HasSubstr("was asked to leave by "), HasSubstr(Me()),
                                       HasSubstr("the workers finish their step and leave"),
                                       Not(HasSubstr("received SIGTERM"))));
  ASSERT_TRUE(nodes_[0]->WaitForLine("in generation 2: rank 0 of 1", kSoon)) << nodes_[0]->Text();
  EXPECT_TRUE(nodes_[0]->WaitForLine(absl::StrCat(id, " is asked to leave by "), Seconds(0)));
  for (int rank = 0; rank < 2; ++rank) {
    const auto calls = CallsAt(rank);
    ASSERT_EQ(calls.size(), 1u) << rank;
    EXPECT_EQ(calls[0]["call"], "drain");
    EXPECT_EQ(calls[0]["node"], id);
    EXPECT_EQ(calls[0]["by"]["host"], HostName());
    EXPECT_THAT(calls[0]["by"]["address"].get<std::string>(), HasSubstr("127.0.0.1:"));
    EXPECT_FALSE(calls[0]["time"].get<std::string>().empty());
  }

  const auto [stopped, stop_status] = Ask({"--stop", endpoint_});
  EXPECT_EQ(stop_status, 0) << stopped;
  EXPECT_EQ(nodes_[0]->Wait(), 143) << nodes_[0]->Text();
}

TEST_F(ControlTest, LogOfARankIsReadRemotelyAndFollowed) {
  const std::string more = folder_.File("more");
  StartBoth("2", {Script("run.sh", absl::StrCat("echo out of $RANK; echo err of $RANK >&2\n"
                                                "while [ ! -e ",
                                                more,
                                                " ]; do sleep 0.1; done\n"
                                                "echo more of $RANK; exec sleep 1000\n"))});
  for (const auto& node : nodes_) ASSERT_TRUE(node->WaitForLine("err of")) << node->Text();
  const auto [logs, status] = Ask({"--logs", "1", endpoint_});
  EXPECT_EQ(status, 0) << logs;
  EXPECT_THAT(logs, AllOf(HasSubstr("out of 1\n"), HasSubstr("err of 1\n"), Not(HasSubstr("of 0"))));
  const auto [none, none_status] = Ask({"--logs", "7", endpoint_});
  EXPECT_EQ(none_status, 1);
  EXPECT_THAT(none, HasSubstr("generation 1 of job \"job\" has no rank 7, but 0 to 1"));

  Program follow(Command({"--logs", "1", endpoint_, "--follow"}), Environment());
  ASSERT_TRUE(follow.WaitForLine("out of 1", kSoon)) << follow.Text();
  support::WriteText(more, "");
  ASSERT_TRUE(follow.WaitForLine("more of 1", kSoon)) << follow.Text();
  Ask({"--stop", endpoint_});
  for (const auto& node : nodes_) EXPECT_EQ(node->Wait(), 143) << node->Text();
  EXPECT_EQ(follow.Wait(), 0) << follow.Text();
}

TEST_F(ControlTest, WatchedStatusIsPrintedAgainUntilTheJobEnds) {
  StartToys("1:2");
  Program watch(Command({"--status", endpoint_, "--watch"}), Environment());
  ASSERT_TRUE(watch.WaitForLine("generation 1 with 2 nodes", kSoon)) << watch.Text();
  nodes_[1]->Signal(SIGTERM);
  ASSERT_TRUE(watch.WaitForLine("generation 2 with 1 node ", kSoon)) << watch.Text();
  nodes_[0]->Signal(SIGTERM);
  EXPECT_EQ(watch.Wait(), 0) << watch.Text();
  EXPECT_LT(From(watch.OutLines(), "service up").size(), 6u) << "ages alone are no news\n" << watch.Text();
  EXPECT_EQ(nodes_[1]->Wait(), 0) << nodes_[1]->Text();
  EXPECT_EQ(nodes_[0]->Wait(), 143) << "nobody is left to do the job\n" << nodes_[0]->Text();
}

/// A stand-alone service ends during a job, which holds and can find another one.
TEST_F(ControlTest, ServiceEndDoesNotEndItsJob) {
  const std::string port = endpoint_.substr(endpoint_.find(':') + 1);
  Program service({support::BinaryFolder() + "/mtrdzv", "--host", "127.0.0.1", "--port", port},
                  Environment());
  ASSERT_TRUE(service.WaitForLine("serving")) << service.Text();
  const auto node = Agent("1", {support::BinaryFolder() + "/../tests/toy_worker", "cooperative"});
  ASSERT_TRUE(node->WaitForLine("in generation 1: rank", kSoon)) << node->Text();
  Program watch(Command({"--status", endpoint_, "--watch"}), Environment());
  Program follow(Command({"--logs", "0", endpoint_, "--follow"}), Environment());
  ASSERT_TRUE(watch.WaitForLine("generation 1 with 1 node", kSoon)) << watch.Text();
  ASSERT_TRUE(follow.WaitForLine("in generation 1: rank", kSoon)) << follow.Text();
  service.Signal(SIGTERM);
  for (Program* asks : {&watch, &follow}) {
    EXPECT_EQ(asks->Wait(), 1) << asks->Text();
    EXPECT_THAT(asks->Text(), HasSubstr("the job was not seen to end; it may continue where another node"));
  }
  EXPECT_EQ(kill(node->pid(), 0), 0) << node->Text();
  node->Signal(SIGTERM);
  node->Wait();
}

TEST_F(ControlTest, ServiceWithTheJobIsFoundInAList) {
  const std::string list = absl::StrCat("127.0.0.1:", support::FreePort(), ",", endpoint_);
  StartToys("1:2");
  const auto [status, asked] = Ask({"--status", list});
  EXPECT_EQ(asked, 0) << status;
  EXPECT_THAT(status, HasSubstr("generation 1 with 2 nodes"));
  Program watch(Command({"--status", list, "--watch"}), Environment());
  Program follow(Command({"--logs", "0", list, "--follow"}), Environment());
  ASSERT_TRUE(watch.WaitForLine("generation 1 with 2 nodes", kSoon)) << watch.Text();
  ASSERT_TRUE(follow.WaitForLine("in generation 1: rank", kSoon)) << follow.Text();
  const auto looks = CallsAt(0);
  ASSERT_EQ(looks.size(), 1u) << "following asks again and again";
  EXPECT_EQ(looks[0]["call"], "logs");
  EXPECT_EQ(looks[0]["rank"], 0);
  EXPECT_EQ(looks[0]["by"]["pid"], follow.pid());
  Ask({"--stop", list});
  for (Program* asks : {&watch, &follow}) EXPECT_EQ(asks->Wait(), 0) << asks->Text();
  for (const auto& node : nodes_) EXPECT_EQ(node->Wait(), 143) << node->Text();
  EXPECT_EQ(CallsAt(0).size(), 2u) << "the stop";
}

TEST_F(ControlTest, StoppedJobEndsOnAllNodes) {
  StartBoth("2", {Script("run.sh", "echo ready; exec sleep 1000\n")});
  for (const auto& node : nodes_) ASSERT_TRUE(node->WaitForLine("ready")) << node->Text();
  const auto [done, status] = Ask({"--stop", endpoint_, "--rdzv_id", "job"});
  EXPECT_EQ(status, 0) << done;
  EXPECT_THAT(done, HasSubstr("job \"job\" is stopped on 2 nodes"));
  for (int rank = 0; rank < 2; ++rank) {
    Program& node = *nodes_[static_cast<size_t>(rank)];
    EXPECT_EQ(node.Wait(), 143) << node.Text();
    EXPECT_THAT(node.Text(), AllOf(HasSubstr("run.sh STOPPED"), HasSubstr("stopped by "), HasSubstr(Me()),
                                   Not(HasSubstr("FAILED"))));
    ASSERT_EQ(CallsAt(rank).size(), 1u);
    EXPECT_EQ(CallsAt(rank)[0]["call"], "stop");
    EXPECT_EQ(CallsAt(rank)[0]["checkpoint"], false);
  }
}

TEST_F(ControlTest, StopWithACheckpointLetsAllWorkersLeaveByThemselves) {
  StartToys("2");
  const auto [done, status] = Ask({"--stop", endpoint_, "--checkpoint"});
  EXPECT_EQ(status, 0) << done;
  EXPECT_THAT(done, HasSubstr("2 nodes leave after a step; trainers save"));
  for (int rank = 0; rank < 2; ++rank) {
    Program& node = *nodes_[static_cast<size_t>(rank)];
    EXPECT_EQ(node.Wait(), 143) << "the job is not complete\n" << node.Text();
    EXPECT_THAT(node.Text(),
                AllOf(HasSubstr("trainers save"), HasSubstr("the workers finish their step and leave")));
    const auto calls = CallsAt(rank);
    ASSERT_EQ(calls.size(), 1u) << rank;
    EXPECT_EQ(calls[0]["call"], "stop");
    EXPECT_EQ(calls[0]["checkpoint"], true);
    EXPECT_EQ(calls[0]["by"]["host"], HostName());
    EXPECT_GT(calls[0]["by"]["pid"].get<int>(), 0);
    EXPECT_FALSE(calls[0]["time"].get<std::string>().empty());
  }
}

}  // namespace
}  // namespace mtrun::e2e

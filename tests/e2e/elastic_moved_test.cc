// A job that has moved from its endpoint to the service of another member: a person who knows only the
// endpoint finds it once a service is there again.
#include "nlohmann/json.hpp"
#include "tests/e2e/cluster.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Three nodes with the token. The host of the endpoint dies, and node 1 takes over.
class MovedTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    if (!network_) return;
    for (int node = 0; node < 3; ++node) nodes_of_job_.push_back(Node(node));
    for (const auto& node : nodes_of_job_) ASSERT_TRUE(Met(*node, 1, 3)) << node->Text();
    kill(AgentOf(*nodes_of_job_[0]), SIGKILL);
    nodes_of_job_[0]->Signal(SIGKILL);
    nodes_of_job_[0]->Wait();
    for (int node : {1, 2}) ASSERT_TRUE(Met(*nodes_of_job_[node], 2, 2)) << nodes_of_job_[node]->Text();
  }
  void TearDown() override {
    nodes_of_job_.clear();
    NetworkTest::TearDown();
  }

  std::unique_ptr<Program> On(int node, const std::vector<std::string>& argv,
                              const support::Overlay& overlay = {}) const {
    support::Overlay environment = Environment();
    for (const auto& [name, value] : overlay) environment[name] = value;
    return std::make_unique<Program>(network_->On(node, argv), environment);
  }
  std::unique_ptr<Program> Node(int node) const {
    return On(node, Command(Words({"--nnodes", "1:3", "--rdzv_id", "run7", "--rdzv_endpoint", endpoints_[0],
                                   "--node_rank", absl::StrCat(node), "--rdzv_conf", "last_call_timeout=20"},
                                  toy_)));
  }
  /// Returns the output and exit status of a question that is asked on node 2.
  std::pair<std::string, int> Ask(const std::vector<std::string>& question,
                                  const support::Overlay& overlay = {}) const {
    const auto mtrun = On(2, Words({Mtrun()}, question), overlay);
    const int status = mtrun->Wait().value_or(-1);
    return {mtrun->Text(), status};
  }
  void ExpectAllQuestionsToFollow() const {
    const auto [json, shown] = Ask({"--status", endpoints_[0], "--json"});
    EXPECT_EQ(shown, 0) << json;
    const auto status = nlohmann::json::parse(json, nullptr, false);
    ASSERT_FALSE(status.is_discarded() || status["jobs"].empty()) << json;
    EXPECT_EQ(status["jobs"][0]["job"], "run7");
    const auto [log, read] = Ask({"--logs", "0", endpoints_[0]});
    EXPECT_EQ(read, 0) << log;
    EXPECT_THAT(log, HasSubstr("in generation"));
    const auto [drained, done] = Ask({"--drain", "node2", endpoints_[0], "--rdzv_id", "run7"});
    EXPECT_EQ(done, 0) << drained;
    EXPECT_THAT(drained, HasSubstr("node2 leaves job \"run7\""));
    EXPECT_EQ(nodes_of_job_[2]->Wait(kSoon), 0) << nodes_of_job_[2]->Text();
    const auto [other, refused] = Ask({"--stop", endpoints_[0], "--rdzv_id", "other"});
    EXPECT_EQ(refused, 1) << other;
    EXPECT_THAT(other, AllOf(HasSubstr("does not have job \"other\""), Not(HasSubstr("run7\" is at"))));
    const auto [impostor, unproven] = Ask({"--stop", endpoints_[0]}, {{kTokenVariable, MakeToken()}});
    EXPECT_EQ(unproven, 1) << impostor;
    EXPECT_THAT(impostor, HasSubstr("has another token"));
    const auto [stopped, ended] = Ask({"--stop", endpoints_[0]});
    EXPECT_EQ(ended, 0) << stopped;
    EXPECT_EQ(nodes_of_job_[1]->Wait(kSoon), 128 + SIGTERM) << nodes_of_job_[1]->Text();
  }

  std::vector<std::unique_ptr<Program>> nodes_of_job_;
};

/// While no service is at the endpoint.
TEST_F(MovedTest, TerminalOfTheNewHostSaysWhereToAsk) {
  const auto line = nodes_of_job_[1]->WaitForLine("mtrun --status ", kSoon);
  ASSERT_TRUE(line) << nodes_of_job_[1]->Text();
  const std::string place = line->substr(line->rfind(' ') + 1);
  EXPECT_THAT(place, HasSubstr(network_->Address(1)));
  const auto [text, shown] = Ask({"--status", place});
  EXPECT_EQ(shown, 0) << text;
  EXPECT_THAT(text, HasSubstr("job run7: running"));
  EXPECT_THAT(nodes_of_job_[2]->Text(), Not(HasSubstr("mtrun --status")));
}

TEST_F(MovedTest, QuestionsFollowFromTheHostThatIsBack) {
  nodes_of_job_[0] = Node(0);
  for (const auto& node : nodes_of_job_) ASSERT_TRUE(Met(*node, 3, 3)) << node->Text();
  ExpectAllQuestionsToFollow();
  EXPECT_EQ(nodes_of_job_[0]->Wait(kSoon), 128 + SIGTERM) << nodes_of_job_[0]->Text();
}

/// Another program would do: it learns of the job only from the service that has it.
TEST_F(MovedTest, QuestionsFollowFromAServiceOfItsOwnAtTheEndpoint) {
  const auto service =
      On(0, {support::BinaryFolder() + "/mtrdzv", "--host", network_->Address(0), "--port", "29400"});
  ASSERT_TRUE(service->WaitForLine("serving", kSoon)) << service->Text();
  const auto watch = On(2, {Mtrun(), "--status", endpoints_[0], "--watch"});
  ASSERT_TRUE(watch->WaitForLine("job run7: running", kSoon)) << watch->Text() << service->Text();
  ExpectAllQuestionsToFollow();
  EXPECT_EQ(watch->Wait(kSoon), 0) << watch->Text();
}

}  // namespace
}  // namespace mtrun::e2e

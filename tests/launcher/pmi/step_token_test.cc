#include "launcher/pmi/step_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/pmi/message.h"
#include "tests/launcher/pmi/scripted_manager.h"
#include "tests/support/token.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const EnvironmentMap kTask = {{"PMI_FD", "10"}, {"PMI_JOBID", "5.0"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};

EnvironmentMap With(const std::string& name, const std::string& value) {
  EnvironmentMap environment = kTask;
  environment[name] = value;
  return environment;
}

/// Returns the answers from fullinit on.
std::vector<std::string> Answers(const std::vector<std::string>& commands) {
  std::vector<std::string> answers = {ScriptedManager::kHello, ScriptedManager::Ok("fullinit")};
  for (const std::string& command : commands) answers.push_back(ScriptedManager::Ok(command));
  return answers;
}

std::vector<std::string> Holding(const std::string& token) {
  std::vector<std::string> answers = Answers({"kvs-fence"});
  answers.push_back(Encode({"kvs-get-response", {{"rc", "0"}, {"found", "TRUE"}, {"value", token}}}));
  answers.push_back(ScriptedManager::Ok("finalize"));
  return answers;
}

TEST(StepToken, PlaceIsReadFromTheEnvironment) {
  EXPECT_EQ(*PmiPlaceOf(kTask), (PmiPlace{10, "5.0", 1}));
  EXPECT_THAT(PmiPlaceOf({}).status().message(), HasSubstr("PMI_FD is missing"));
  EXPECT_THAT(PmiPlaceOf(With("PMI_FD", "-1")).status().message(), HasSubstr("PMI_FD is not a number"));
  EXPECT_THAT(PmiPlaceOf(With("PMI_RANK", "x")).status().message(), HasSubstr("PMI_RANK is not a number"));
  EXPECT_THAT(PmiPlaceOf({{"PMI_FD", "10"}}).status().message(), HasSubstr("PMI_RANK is missing"));
  EXPECT_THAT(PmiPlaceOf(With("PMI_JOBID", "a;b")).status().message(), HasSubstr("PMI_JOBID"));
}

TEST(StepToken, FirstRankMakesAndPublishesTheToken) {
  ScriptedManager manager(Answers({"kvs-put", "kvs-fence", "finalize"}));
  const auto token = ShareTokenOfStep(manager.TakeClient(), {10, "5.0", 0}, kLong);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_TRUE(CheckToken(*token).ok());
  EXPECT_THAT(manager.Heard(), HasSubstr("key=mtrun-token;value=" + *token + ";"));
}

TEST(StepToken, OtherRanksReadTheToken) {
  ScriptedManager manager(Holding(support::kToken));
  EXPECT_EQ(*ShareTokenOfStep(manager.TakeClient(), {10, "5.0", 1}, kLong), support::kToken);
  EXPECT_THAT(manager.Heard(), AllOf(HasSubstr("cmd=finalize;"), Not(HasSubstr("kvs-put"))));
}

TEST(StepToken, ErrorGivesAdviceAndNoToken) {
  ScriptedManager wrong(Holding("mtrun1-abc"));
  const std::string error(ShareTokenOfStep(wrong.TakeClient(), {10, "5.0", 1}, kLong).status().message());
  EXPECT_THAT(error,
              AllOf(HasSubstr("the token of rank 0"), HasSubstr("--token_file FILE"), Not(HasSubstr("abc"))));
  std::vector<std::string> silent = Answers({});
  silent.emplace_back("");
  ScriptedManager fence(silent);
  EXPECT_THAT(
      ShareTokenOfStep(fence.TakeClient(), {10, "5.0", 1}, kShort).status().message(),
      AllOf(HasSubstr("no answer to kvs-fence within"), HasSubstr("every task of the step must ask")));
}

}  // namespace
}  // namespace mtrun::launcher

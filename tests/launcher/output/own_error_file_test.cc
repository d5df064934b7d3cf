#include "launcher/output/own_error_file.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mtrun::launcher {
namespace {

rendezvous::JobOutcome Failed() {
  rendezvous::JobOutcome outcome;
  outcome.exit_code = 3;
  outcome.reason = "rank 1 failed";
  outcome.root_cause.emplace();
  outcome.root_cause->exit_code = 3;
  outcome.root_cause->message = "ValueError: no\nTraceback\n at x";
  outcome.root_cause->wall_time = "2026-11-21T14:37:44.123Z";
  return outcome;
}

TEST(OwnErrorFileTest, CopiesTheWorkersRecordWithTheExitCode) {
  const std::string record =
      R"({"message":{"message":"ValueError: no","extraInfo":{"timestamp":"17","other":[1]}},"more":1})";
  const auto own = nlohmann::json::parse(OwnErrorFile(record, Failed()));
  EXPECT_EQ(own["message"]["message"], "ValueError: no");
  EXPECT_EQ(own["message"]["errorCode"], 3);
  EXPECT_EQ(own["message"]["extraInfo"]["timestamp"], "17");
  EXPECT_EQ(own["more"], 1);
  const auto flat = nlohmann::json::parse(OwnErrorFile(R"({"message":"no","timestamp":17})", Failed()));
  EXPECT_EQ(flat["message"], "no");
  EXPECT_EQ(flat["errorCode"], 3);
}

TEST(OwnErrorFileTest, IsMadeFromTheOutcomeIfThereIsNoRecord) {
  const auto own = nlohmann::json::parse(OwnErrorFile("", Failed()));
  EXPECT_EQ(own["message"]["message"], "ValueError: no");
  EXPECT_EQ(own["message"]["extraInfo"]["py_callstack"], "Traceback\n at x");
  EXPECT_EQ(own["message"]["extraInfo"]["timestamp"], "1795271864");
  rendezvous::JobOutcome killed = Failed();
  killed.root_cause->signal = 9;
  killed.root_cause->message = "\xff";
  EXPECT_EQ(nlohmann::json::parse(OwnErrorFile("", killed))["message"]["errorCode"], -9);
  killed.root_cause.reset();
  EXPECT_EQ(nlohmann::json::parse(OwnErrorFile("", killed))["message"]["message"], "rank 1 failed");
}

TEST(OwnErrorFileTest, TooDeeplyNestedRecordIsReplacedByTheOutcome) {
  const std::string open(3'000'000, '['), close(3'000'000, ']');
  const auto own = nlohmann::json::parse(
      OwnErrorFile(absl::StrCat(R"({"message":"no","more":)", open, close, "}"), Failed()));
  EXPECT_EQ(own["message"]["message"], "ValueError: no");
  EXPECT_EQ(own["message"]["errorCode"], 3);
}

TEST(OwnErrorFileTest, ReadsTheRecordNextToTheLog) {
  const std::string folder = *MakeTemporaryFolder("error_file_test_");
  ASSERT_TRUE(WriteFileAtomically(folder + "/error.json", R"({"message":{"message":"from the file"}})").ok());
  rendezvous::JobOutcome outcome = Failed();
  outcome.root_cause->log_file = folder + "/stderr.log";
  ASSERT_TRUE(WriteOwnErrorFile(folder + "/own.json", outcome).ok());
  EXPECT_EQ(nlohmann::json::parse(*ReadFile(folder + "/own.json"))["message"]["message"], "from the file");
  EXPECT_FALSE(WriteOwnErrorFile("/no/such/folder/own.json", outcome).ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace mtrun::launcher

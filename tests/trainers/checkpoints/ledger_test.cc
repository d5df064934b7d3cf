#include "trainers/checkpoints/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "nlohmann/json.hpp"

namespace mtrun::checkpoints {
namespace {

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = *MakeTemporaryFolder("mtrun-ledger-");
    path_ = folder_ + "/ledger.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> Lines() { return absl::StrSplit(*ReadFile(path_), '\n', absl::SkipEmpty()); }
  /// Every line's "prev" is the digest of the line before.
  void ExpectChain() {
    std::string previous = kLedgerStart;
    for (const std::string& line : Lines()) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object()) {
        EXPECT_EQ(json["prev"], previous) << line;
      }
      previous = Sha256Hex(line);
    }
  }

  const LedgerHead head_ = {
      .run = 7, .seed = 1, .size = 100, .global_batch = 16, .micro_batch = 8, .data = "d"};
  std::string folder_, path_;
};

LedgerStep StepAt(int64_t step) {
  return {.step = step, .generation = 1, .world = 2, .ids = "ab", .loss = 0.1};
}

TEST_F(LedgerTest, LinesAreChainedOverWritersAndRewinds) {
  {
    auto ledger = Ledger::Open(path_, head_);
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    for (int64_t step = 0; step < 5; ++step) ASSERT_TRUE(ledger->Append(StepAt(step)).ok());
  }
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->next_step(), 5);
  ASSERT_TRUE(ledger->Rewind(3, 2).ok());
  EXPECT_EQ(ledger->next_step(), 3);
  ASSERT_TRUE(ledger->Append(StepAt(3)).ok());
  EXPECT_EQ(Lines().size(), 8u);
  ExpectChain();
  EXPECT_EQ(nlohmann::json::parse(Lines()[1])["loss"], "0.10000000000000001");
}

TEST_F(LedgerTest, AHalfWrittenLastLineIsEndedAndKept) {
  {
    auto ledger = Ledger::Open(path_, head_);
    ASSERT_TRUE(ledger.ok() && ledger->Append(StepAt(0)).ok());
  }
  std::ofstream(path_, std::ios::app) << R"({"step":1,"epo)";
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->next_step(), 1);
  ASSERT_TRUE(ledger->Append(StepAt(1)).ok());
  ASSERT_EQ(Lines().size(), 4u);
  EXPECT_EQ(Lines()[2], R"({"step":1,"epo)");
  ExpectChain();
}

TEST_F(LedgerTest, AnotherRunsLedgerIsRefused) {
  ASSERT_TRUE(Ledger::Open(path_, head_).ok());
  LedgerHead other = head_;
  other.run = 8;
  const auto ledger = Ledger::Open(path_, other);
  EXPECT_EQ(ledger.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LedgerTest, ALongFileIsContinuedFromItsEnd) {
  {
    auto ledger = Ledger::Open(path_, head_);
    ASSERT_TRUE(ledger.ok());
    for (int64_t step = 0; step < 2000; ++step) ASSERT_TRUE(ledger->Append(StepAt(step)).ok());
  }
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->next_step(), 2000);
  ASSERT_TRUE(ledger->Append(StepAt(2000)).ok());
  ExpectChain();
}

}  // namespace
}  // namespace mtrun::checkpoints

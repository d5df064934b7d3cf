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
  return {.step = step, .generation = 1, .world = 2, .ids = "ab", .gathered = {255, 16}, .loss = 0.1};
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
  ASSERT_TRUE(ledger->Begin({.steps = 3, .of = 1, .remembered = 3, .lineage = {{1, 0}}}, 2).ok());
  EXPECT_EQ(ledger->next_step(), 3);
  ASSERT_TRUE(ledger->Append(StepAt(3)).ok());
  EXPECT_EQ(Lines().size(), 8u);
  ExpectChain();
  const auto line = nlohmann::json::parse(Lines()[1]);
  EXPECT_EQ(line["loss"], "0.10000000000000001");
  EXPECT_EQ(line["samples"], 16);
  EXPECT_EQ(line["hash"], "00000000000000ff");
}

TEST_F(LedgerTest, TheHeadNamesTheOrder) {
  const auto parsed = [](const LedgerHead& head) {
    return nlohmann::json::parse(ToLine(head, kLedgerStart));
  };
  LedgerHead head = head_;
  head.shards = {{60, 40}, 3};
  EXPECT_EQ(parsed(head)["shuffle"], true);
  EXPECT_FALSE(parsed(head).contains("shards")) << "a permutation of all samples knows no shards";
  head.shuffle = datasets::Shuffle::kNone;
  EXPECT_EQ(parsed(head)["shuffle"], false);
  head.shuffle = datasets::Shuffle::kStreams;
  EXPECT_EQ(parsed(head)["shuffle"], "streams");
  EXPECT_EQ(parsed(head)["window"], 3);
  EXPECT_EQ(parsed(head)["shards"], nlohmann::json({60, 40}));
  head.shuffle = datasets::Shuffle::kFixedStreams;
  EXPECT_EQ(parsed(head)["shuffle"], "fixed_streams");
  EXPECT_EQ(parsed(head)["shards"], nlohmann::json({60, 40}));
}

/// A line must not be longer than what a successor reads of it.
TEST_F(LedgerTest, AHeadOfManyShardsIsReadAgain) {
  LedgerHead head = head_;
  head.shuffle = datasets::Shuffle::kStreams;
  head.shards.counts.assign(8192, 999'999'999'999);
  {
    auto ledger = Ledger::Open(path_, head);
    ASSERT_TRUE(ledger.ok());
    ASSERT_TRUE(ledger->Append(StepAt(0)).ok());
  }
  EXPECT_EQ(*RunOfLedger(path_), head.run);
  EXPECT_EQ(Ledger::Open(path_, head)->next_step(), 1);
}

TEST_F(LedgerTest, ACheckpointsWeightsStandInTheGenerationBeforeThem) {
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  LedgerStep step = StepAt(0);
  step.generation = 4;
  ASSERT_TRUE(ledger->Append(step).ok());
  ASSERT_TRUE(ledger->AppendCheckpoint(1, "abc").ok());
  ExpectChain();
  const auto line = nlohmann::json::parse(Lines()[2]);
  EXPECT_EQ(line["checkpoint"], 1);
  EXPECT_EQ(line["generation"], 4);
  EXPECT_EQ(line["weights"], "abc");
  EXPECT_EQ(Ledger::Open(path_, head_)->next_step(), 1);
}

/// A line of a generation that is over does not count, whoever wrote it, and whatever it says.
TEST_F(LedgerTest, ALateWriterHarmsNothing) {
  auto late = Ledger::Open(path_, head_);
  ASSERT_TRUE(late.ok() && late->Append(StepAt(0)).ok());
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  LedgerStep step = StepAt(1);
  step.generation = 2;
  ASSERT_TRUE(ledger->Append(step).ok());
  ASSERT_TRUE(late->Append(StepAt(1)).ok() && late->Append(StepAt(2)).ok() && late->Begin({}, 1).ok());
  EXPECT_EQ(Ledger::Open(path_, head_)->next_step(), 2);
  EXPECT_EQ(*HighestGeneration(path_), 2u);
  EXPECT_EQ(*HighestGeneration(folder_ + "/none"), 0u);
  EXPECT_EQ(*EndOfLedger(path_), (LedgerEnd{.generation = 2, .next_step = 2}));
  EXPECT_EQ(*EndOfLedger(folder_ + "/none"), LedgerEnd{});
}

/// Earlier releases numbered generations from 1 again when nobody was left who knew them.
/// A worker that was stopped in the middle of its last step writes it once another one has looked where the
/// ledger ends. (A storm on a shared folder found it.)
TEST_F(LedgerTest, ALineThatComesBetweenTheLookAndTheFirstLineIsInTheChain) {
  auto late = Ledger::Open(path_, head_);
  ASSERT_TRUE(late.ok() && late->Append(StepAt(0)).ok());
  auto next = Ledger::Open(path_, head_);
  ASSERT_TRUE(next.ok() && late->Append(StepAt(1)).ok());
  EXPECT_FALSE(next->IsLast());
  ASSERT_TRUE(next->Append(StepAt(1)).ok()) << "what it remembers of the generation before stands there";
  LedgerStep first = StepAt(1);
  first.generation = 2;
  ASSERT_TRUE(next->Append(first).ok());
  EXPECT_EQ(Lines().size(), 4u);
  ExpectChain();
  EXPECT_TRUE(next->IsLast());
  // What a full disk has kept of it is ended.
  std::ofstream(path_, std::ios::app) << "{\"step\":1";
  ASSERT_TRUE(next->Append(StepAt(2)).ok());
  EXPECT_EQ(Lines().size(), 6u);
  ExpectChain();
}

TEST_F(LedgerTest, AnEarlierReleasesGenerationsBeginAgainAtARewind) {
  std::ofstream(path_) << R"({"ledger":1,"run":"0000000000000007"})"
                       << "\n"
                       << ToLine(LedgerStep{.step = 9, .generation = 5, .ids = ""}, "") << "\n"
                       << RewindLine(4, 2, 5, "") << "\n"
                       << ToLine(LedgerStep{.step = 4, .generation = 2, .ids = ""}, "") << "\n";
  EXPECT_EQ(Ledger::Open(path_, head_)->next_step(), 5);
  EXPECT_EQ(*HighestGeneration(path_), 2u);
}

TEST_F(LedgerTest, NumbersThatNoWriterWritesAreNoSteps) {
  std::ofstream(path_) << ToLine(head_, kLedgerStart) << "\n"
                       << R"({"step":3})"
                       << "\n"
                       << R"({"step":9223372036854775807})"
                       << "\n"
                       << R"({"step":18446744073709551615})"
                       << "\n"
                       << R"({"rewind":18446744073709551615})"
                       << "\n"
                       << "{\"step\":" << std::string(3000, '[') << "\n";
  EXPECT_EQ(Ledger::Open(path_, head_)->next_step(), 4);
}

TEST_F(LedgerTest, AFirstLineWithoutEndIsNotReadWhole) {
  std::ofstream(path_) << std::string(1 << 20, 'x');
  EXPECT_EQ(*RunOfLedger(path_), std::nullopt);
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

/// The power went, or the disk was full, right before it. The verifier counts the line too.
TEST_F(LedgerTest, AWholeLastLineThatLacksItsNewlineCounts) {
  {
    auto ledger = Ledger::Open(path_, head_);
    ASSERT_TRUE(ledger.ok() && ledger->Append(StepAt(0)).ok() && ledger->Append(StepAt(1)).ok());
  }
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  EXPECT_EQ(*EndOfLedger(path_), (LedgerEnd{.generation = 1, .next_step = 2}));
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->next_step(), 2);
  ASSERT_TRUE(ledger->Append(StepAt(2)).ok());
  EXPECT_EQ(Lines().size(), 4u);
  ExpectChain();
}

TEST_F(LedgerTest, WhatIsNoFileCannotBeReadAndIsNamed) {
  std::filesystem::create_directory(path_);
  const absl::Status status = RunOfLedger(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("cannot read " + path_ + ": "));
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

/// A state of generation 1 was held by a frozen node while generation 2 began again from step 2 and died.
TEST_F(LedgerTest, AWriterSaysFromWhichGenerationItContinues) {
  {
    auto ledger = Ledger::Open(path_, head_);
    ASSERT_TRUE(ledger.ok());
    for (int64_t step = 0; step < 4; ++step) ASSERT_TRUE(ledger->Append(StepAt(step)).ok());
    ASSERT_TRUE(ledger->Begin({.steps = 2, .of = 1, .remembered = 2, .lineage = {{1, 0}}}, 2).ok());
    LedgerStep other = StepAt(2);
    other.generation = 2;
    ASSERT_TRUE(ledger->Append(other).ok());
  }
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  ASSERT_TRUE(ledger->Begin({.steps = 5, .of = 1, .remembered = 3, .lineage = {{1, 0}}}, 3).ok());
  EXPECT_EQ(ledger->next_step(), 3) << "remembered steps are repeated";
  ASSERT_TRUE(ledger->Append(StepAt(3)).ok() && ledger->Append(StepAt(4)).ok());
  ExpectChain();
  const auto line = nlohmann::json::parse(Lines()[7]);
  EXPECT_EQ(line["rewind"], 5);
  EXPECT_EQ(line["generation"], 3);
  EXPECT_EQ(line["of"], 1);
  EXPECT_EQ(*EndOfLedger(path_), (LedgerEnd{.generation = 3, .next_step = 5}));
}

TEST(ContinueLedgerTest, ALineSaysWhatIsNotPlain) {
  const auto how = [](LedgerEnd end, LedgerBegin begin, uint64_t generation) {
    const LedgerContinuation found = ContinueLedger(end, begin, generation);
    return std::pair(found.rewinds, found.appended_from);
  };
  const LedgerBegin at_5{5, 1, 3, {{1, 0}}};
  EXPECT_EQ(how({}, {}, 1), std::pair(false, int64_t{0})) << "the run begins";
  EXPECT_EQ(how({1, 5}, at_5, 2), std::pair(false, int64_t{5}));
  EXPECT_EQ(how({1, 4}, at_5, 2), std::pair(false, int64_t{4})) << "its writer died before the last line";
  EXPECT_EQ(how({1, 9}, at_5, 2), std::pair(true, int64_t{5})) << "a checkpoint of before";
  EXPECT_EQ(how({2, 5}, at_5, 3), std::pair(true, int64_t{3})) << "as far as another branch is";
  EXPECT_EQ(how({2, 4}, at_5, 3), std::pair(true, int64_t{3})) << "further than another branch is";
  EXPECT_EQ(how({2, 9}, at_5, 3), std::pair(true, int64_t{3})) << "behind another branch";
  EXPECT_EQ(how({1, 5}, at_5, 4), std::pair(true, int64_t{5})) << "2 and 3 may stand in another folder";
  EXPECT_EQ(how({}, at_5, 4), std::pair(true, int64_t{0})) << "in a folder of its own";
  EXPECT_EQ(how({2, 5}, {5, 9, 4, {{1, 0}, {9, 3}}}, 10), std::pair(true, int64_t{4}))
      << "another branch's number may be lower";
  EXPECT_EQ(how({3, 0}, {}, 4), std::pair(false, int64_t{0}));
  EXPECT_EQ(how({3, 2}, {}, 4), std::pair(true, int64_t{0}));
}

}  // namespace
}  // namespace mtrun::checkpoints

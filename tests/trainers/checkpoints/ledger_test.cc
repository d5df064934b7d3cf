#include "trainers/checkpoints/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "base/sha256.h"
#include "nlohmann/json.hpp"
#include "tests/support/file_size_limit.h"

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
  /// Checks that every line's "prev" is the digest of the previous line.
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

TEST_F(LedgerTest, HeadNamesTheOrder) {
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

/// A line must not be longer than the part of it that the next writer reads.
TEST_F(LedgerTest, HeadWithManyShardsIsReadBack) {
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

TEST_F(LedgerTest, CheckpointLineNamesTheGenerationBeforeIt) {
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

/// A line of a past generation is ignored, regardless of its writer and content.
TEST_F(LedgerTest, LateWriterDoesNoHarm) {
  auto late = Ledger::Open(path_, head_);
  ASSERT_TRUE(late.ok() && late->Append(StepAt(0)).ok());
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  LedgerStep step = StepAt(1);
  step.generation = 2;
  ASSERT_TRUE(ledger->Append(step).ok());
  ASSERT_TRUE(late->Append(StepAt(1)).ok() && late->Append(StepAt(2)).ok() && late->Begin({}, 1).ok());
  EXPECT_EQ(Ledger::Open(path_, head_)->next_step(), 2);
  EXPECT_EQ(*EndOfLedger(path_), (LedgerEnd{.generation = 2, .next_step = 2}));
  EXPECT_EQ(*EndOfLedger(folder_ + "/none"), LedgerEnd{});
}

/// A worker that was stopped in the middle of its last step writes that step's line after another worker has
/// looked for the end of the ledger. (A storm test on a shared folder found this.)
TEST_F(LedgerTest, LineWrittenBetweenOpenAndFirstAppendIsChained) {
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
  // Append() terminates a line that a full disk has cut off.
  std::ofstream(path_, std::ios::app) << "{\"step\":1";
  ASSERT_TRUE(next->Append(StepAt(2)).ok());
  EXPECT_EQ(Lines().size(), 6u);
  ExpectChain();
}

/// The other writer's last step is the one before: this one is missing in the file.
TEST_F(LedgerTest, StepThatFollowsAnotherWritersLastIsRecorded) {
  auto late = Ledger::Open(path_, head_);
  ASSERT_TRUE(late.ok() && late->Append(StepAt(0)).ok());
  auto other = Ledger::Open(path_, head_);
  ASSERT_TRUE(other.ok() && other->Append(StepAt(1)).ok());
  ASSERT_TRUE(late->Append(StepAt(1)).ok());
  EXPECT_EQ(Lines().size(), 3u) << "it is there";
  ASSERT_TRUE(late->Append(StepAt(2)).ok());
  EXPECT_EQ(Lines().size(), 4u);
  EXPECT_EQ(*EndOfLedger(path_), (LedgerEnd{.generation = 1, .next_step = 3}));
  ExpectChain();
}

TEST_F(LedgerTest, FileThatWasMovedAwayIsNotTheLast) {
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok() && ledger->Append(StepAt(0)).ok());
  EXPECT_TRUE(ledger->IsLast());
  EXPECT_FALSE(ledger->IsSuperseded());
  std::filesystem::rename(path_, path_ + ".old");
  EXPECT_FALSE(ledger->IsLast());
  EXPECT_TRUE(ledger->IsSuperseded());
  ASSERT_TRUE(Ledger::Open(path_, head_).ok()) << "another one in its place";
  EXPECT_FALSE(ledger->IsLast());
  EXPECT_TRUE(ledger->IsSuperseded());
}

/// A storm (one:shared, seed 301): a writer waited for a read-only disk with the line of its last step while
/// another one took over and added that line; then the file had it twice, and the chain was broken.
TEST_F(LedgerTest, PendingLineIsNotRepeatedAfterAnotherWriterAddedIt) {
  const size_t length = ToLine(StepAt(1), kLedgerStart).size();
  for (const uint64_t fits : std::vector<uint64_t>{0, 10, length - 70, length - 30, length - 3}) {
    std::filesystem::remove(path_);
    auto late = Ledger::Open(path_, head_);
    ASSERT_TRUE(late.ok() && late->Append(StepAt(0)).ok());
    {
      const support::FileSizeLimit full(std::filesystem::file_size(path_) + fits);
      EXPECT_FALSE(late->Append(StepAt(1)).ok());
      EXPECT_FALSE(late->AppendCheckpoint(2, "abc").ok());
    }
    auto next = Ledger::Open(path_, head_);
    ASSERT_TRUE(next.ok() && next->Append(StepAt(1)).ok());
    ASSERT_TRUE(late->Flush().ok() && late->Flush().ok());
    const size_t piece = fits > 0 ? 1 : 0;
    ASSERT_EQ(Lines().size(), 4 + piece);
    EXPECT_EQ(nlohmann::json::parse(Lines()[2 + piece])["step"], 1);
    EXPECT_EQ(nlohmann::json::parse(Lines()[3 + piece])["checkpoint"], 2);
    ExpectChain();
    EXPECT_TRUE(late->IsLast());
  }
}

TEST_F(LedgerTest, WriterThatWaitedForTheDiskKnowsWhatOthersWrote) {
  auto late = Ledger::Open(path_, head_);
  ASSERT_TRUE(late.ok() && late->Append(StepAt(0)).ok());
  {
    const support::FileSizeLimit full(std::filesystem::file_size(path_));
    EXPECT_FALSE(late->Append(StepAt(1)).ok());
  }
  auto next = Ledger::Open(path_, head_);
  ASSERT_TRUE(next.ok() && next->Append(StepAt(1)).ok() && next->Append(StepAt(2)).ok());
  ASSERT_TRUE(late->Flush().ok());
  EXPECT_FALSE(late->IsLast());
  EXPECT_FALSE(late->IsSuperseded());
  ASSERT_TRUE(late->Append(StepAt(2)).ok());
  EXPECT_EQ(Lines().size(), 4u) << "step 2 is not repeated";
  LedgerStep first = StepAt(3);
  first.generation = 2;
  ASSERT_TRUE(next->Append(first).ok());
  ASSERT_TRUE(late->Flush().ok());
  EXPECT_TRUE(late->IsSuperseded()) << "its metrics would take the steps of generation 2 back";
  ExpectChain();
}

TEST_F(LedgerTest, FullDiskCutsNothingOff) {
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok() && ledger->Append(StepAt(0)).ok());
  for (uint64_t fits = 0; fits < 40; ++fits) {
    const support::FileSizeLimit full(std::filesystem::file_size(path_) + fits);
    EXPECT_FALSE(ledger->Append(StepAt(static_cast<int64_t>(fits) + 1)).ok());
  }
  ASSERT_TRUE(ledger->Flush().ok());
  EXPECT_EQ(Lines().size(), 42u);
  ExpectChain();
}

/// Earlier releases numbered generations from 1 again if no remaining process knew the last number.
TEST_F(LedgerTest, GenerationsOfAnEarlierReleaseRestartAtARewind) {
  std::ofstream(path_) << R"({"ledger":1,"run":"0000000000000007"})"
                       << "\n"
                       << ToLine(LedgerStep{.step = 9, .generation = 5, .ids = ""}, "") << "\n"
                       << RewindLine(4, 2, 5, "") << "\n"
                       << ToLine(LedgerStep{.step = 4, .generation = 2, .ids = ""}, "") << "\n";
  EXPECT_EQ(Ledger::Open(path_, head_)->next_step(), 5);
  EXPECT_EQ(EndOfLedger(path_)->generation, 2u);
}

TEST_F(LedgerTest, OutOfRangeNumbersAreNotSteps) {
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

TEST_F(LedgerTest, UnterminatedFirstLineIsNotReadWhole) {
  std::ofstream(path_) << std::string(1 << 20, 'x');
  EXPECT_EQ(*RunOfLedger(path_), std::nullopt);
}

TEST_F(LedgerTest, PartialLastLineIsTerminatedAndKept) {
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

/// A power failure or a full disk cut off only the newline. The verifier counts the line too.
TEST_F(LedgerTest, CompleteLastLineWithoutNewlineCounts) {
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

TEST_F(LedgerTest, FolderInsteadOfAFileIsNamed) {
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

TEST_F(LedgerTest, LongFileIsContinuedFromItsEnd) {
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

/// A frozen node held a state of generation 1 while generation 2 started over from step 2 and died.
TEST_F(LedgerTest, WriterRecordsTheGenerationItContinues) {
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

/// A member of a generation whose writer died saves before it leaves; its own file ends on another branch.
TEST_F(LedgerTest, WriterWithinAGenerationRecordsWhereThatBegan) {
  {
    auto ledger = Ledger::Open(path_, head_);
    ASSERT_TRUE(ledger.ok());
    ASSERT_TRUE(ledger->Begin({.steps = 2, .of = 1, .remembered = 2, .lineage = {{1, 0}}}, 5).ok());
  }
  auto ledger = Ledger::Open(path_, head_);
  ASSERT_TRUE(ledger.ok());
  ASSERT_TRUE(
      ledger->Begin({.steps = 6, .of = 9, .remembered = 3, .lineage = {{1, 0}, {7, 2}, {9, 4}}}, 9).ok());
  EXPECT_EQ(ledger->next_step(), 3);
  const auto line = nlohmann::json::parse(Lines().back());
  EXPECT_EQ(line["rewind"], 4);
  EXPECT_EQ(line["generation"], 9);
  EXPECT_EQ(line["of"], 7) << "a generation does not continue itself";
  ASSERT_TRUE(ledger->Begin({.steps = 6, .of = 9, .remembered = 3, .lineage = {{9, 4}}}, 9).ok());
  EXPECT_FALSE(nlohmann::json::parse(Lines().back()).contains("of")) << "what is not known is not said";
}

TEST(ContinueLedgerTest, NoGenerationContinuesItself) {
  for (const Lineage& lineage :
       {Lineage{}, Lineage{{3, 0}}, Lineage{{1, 0}, {3, 4}}, Lineage{{1, 0}, {2, 1}, {3, 4}}}) {
    for (const LedgerEnd& end :
         {LedgerEnd{}, LedgerEnd{2, 3}, LedgerEnd{2, 9}, LedgerEnd{3, 2}, LedgerEnd{3, 9}}) {
      for (const uint64_t generation : {3, 4, 8}) {
        const LedgerContinuation how = ContinueLedger(end, {6, 3, 2, lineage}, generation);
        EXPECT_TRUE(!how.rewinds || how.of < generation) << "a file that ends at " << end.next_step;
        EXPECT_LE(how.rewinds_to, 6);
      }
    }
  }
}

TEST(ContinueLedgerTest, RecordsRewindsAndAppendedSteps) {
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

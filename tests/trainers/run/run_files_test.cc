#include "trainers/run/files/run_files.h"

#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/program.h"
#include "tests/support/small_disk.h"
#include "tests/support/sync_log.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/manifest.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/run/files/other_runs.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::Status NoBarrier() { return absl::InternalError("nobody to wait for"); }
absl::Status Passed() { return absl::OkStatus(); }

RunFiles::Options In(const std::string& path) {
  return {.path = path,
          .settings = "cnnA:\n  seed: 1\n",
          .ledger = {.run = 0,
                     .seed = 1,
                     .size = 8,
                     .global_batch = 2,
                     .micro_batch = 2,
                     .shuffle = datasets::Shuffle::kFull,
                     .data = "digest"},
          .keep_last = 3,
          .grace = {},
          .remember = true,
          .sample_ids = [](int64_t step) { return absl::StrCat("ids", step); }};
}

RunFiles::Start RunAt(int64_t steps, uint64_t generation = 1, bool fresh = false) {
  return {.run = 77,
          .generation = generation,
          .position = {steps == 0 ? 0 : std::max<uint64_t>(generation, 2) - 1, steps},
          .fresh = fresh,
          .last_save_seconds = 0};
}

FinishedStep FileStep(int64_t step) {
  return {.record = {.step = step, .epoch = 1, .loss = 1, .learning_rate = 0.1, .samples = 2, .seconds = 0.1},
          .generation = 1,
          .world = 2,
          .gathered = {255, 2}};
}

checkpoints::Snapshot Snapshot(int64_t step) {
  checkpoints::Snapshot snapshot;
  snapshot.step = step;
  snapshot.state = "{}";
  return snapshot;
}

/// Returns the numbers of the steps in ledger.jsonl, in order.
std::vector<std::string> Ledger(const std::string& path) {
  std::vector<std::string> ids;
  const std::string text = ReadFile(path + "/ledger.jsonl").value_or("");
  for (size_t at = text.find("ids"); at != std::string::npos; at = text.find("ids", at + 3)) {
    if (text.compare(at, 4, "ids\"") != 0) ids.push_back(text.substr(at + 3, 1));
  }
  return ids;
}

class RunFilesTest : public ::testing::Test {
 protected:
  const support::TemporaryFolder folder_, other_;
};

TEST_F(RunFilesTest, OnlyTheWriterWrites) {
  RunFiles writer(In(folder_.path())), other(In(folder_.path()));
  ASSERT_TRUE(writer.Enter({.who = {.rank = 0}}, RunAt(0, 1, true), NoBarrier).ok());
  ASSERT_TRUE(other.Enter({.who = {.rank = 1}}, RunAt(0, 1, true), NoBarrier).ok());
  EXPECT_TRUE(writer.writes() && writer.saves());
  EXPECT_FALSE(other.writes() || other.saves());
  for (RunFiles* files : {&writer, &other}) {
    ASSERT_TRUE(files->Record(FileStep(0), MonotonicNow()).ok());
    ASSERT_TRUE(files->Record(EvalRecord{.steps = 1, .epoch = 1}).ok());
    ASSERT_TRUE(files->Flush().ok());
  }
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0"));
  ASSERT_TRUE(writer.Save(Snapshot(1), {}, MonotonicNow()).ok());
  ASSERT_TRUE(writer.Wait().ok() && other.Wait().ok());
  EXPECT_TRUE(fs::exists(folder_.path() + "/step_1/DONE"));
  EXPECT_THAT(other.LastCheckpoint(), HasSubstr("/step_1"));
  ASSERT_TRUE(writer.Flush().ok());
  EXPECT_THAT(ReadFile(folder_.path() + "/metrics.jsonl").value_or(""), HasSubstr("\"save\":1"));
  const auto weights = checkpoints::DigestOfWeights(checkpoints::RealFiles(), folder_.path(), 1);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::string ledger = ReadFile(folder_.path() + "/ledger.jsonl").value_or("");
  EXPECT_THAT(ledger, HasSubstr(R"("samples":2,"hash":"00000000000000ff")"));
  EXPECT_THAT(ledger,
              HasSubstr(absl::StrCat(R"({"checkpoint":1,"generation":1,"weights":")", *weights, "\"")));
}

/// No power cut keeps a checkpoint and loses the lines of its steps.
TEST_F(RunFilesTest, RecordsAreOnTheDiskBeforeTheCheckpoint) {
  RunFiles writer(In(folder_.path()));
  ASSERT_TRUE(writer.Enter({.who = {.rank = 0}}, RunAt(0, 1, true), NoBarrier).ok());
  ASSERT_TRUE(writer.Record(FileStep(0), MonotonicNow()).ok());
  support::SyncLog log(folder_.path());
  ASSERT_TRUE(writer.Save(Snapshot(1), {}, MonotonicNow()).ok());
  ASSERT_TRUE(writer.Wait().ok());
  std::vector<std::string> synced = log.Take();
  ASSERT_GT(synced.size(), 4u);
  EXPECT_THAT(synced, Contains(StartsWith(".step_1.partial-")));
  EXPECT_THAT(synced.back(), ".");
  synced.resize(4);
  EXPECT_THAT(synced, ElementsAre("ledger.jsonl", "metrics.jsonl", ".", StartsWith(".step_1.partial-")));
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0"));
  EXPECT_THAT(ReadFile(folder_.path() + "/metrics.jsonl").value_or(""), HasSubstr("{\"step\":0,"));
}

/// A power cut leaves no file at neither place.
TEST_F(RunFilesTest, MovedFilesAreOnTheDiskBeforeTheyAreGoneFromTheOldPlace) {
  support::WriteText(folder_.File("metrics.jsonl"), "{}\n");
  support::SyncLog log(folder_.path());
  ASSERT_TRUE(MoveAside(folder_.path()).ok());
  EXPECT_THAT(log.Take(), ElementsAre("previous_1", "."));
}

TEST_F(RunFilesTest, NewRunFolderIsOnTheDisk) {
  support::SyncLog log(folder_.path());
  ASSERT_TRUE(CheckRunFolder(folder_.File("run")).ok());
  EXPECT_THAT(log.Take(), Contains("."));
}

TEST_F(RunFilesTest, NewWriterRecordsMissingStepsOfItsPredecessor) {
  RunFiles first(In(folder_.path())), second(In(folder_.path()));
  ASSERT_TRUE(first.Enter({.who = {.rank = 0}}, RunAt(0, 1, true), NoBarrier).ok());
  ASSERT_TRUE(second.Enter({.who = {.rank = 1}}, RunAt(0, 1, true), NoBarrier).ok());
  ASSERT_TRUE(first.Record(FileStep(0), MonotonicNow()).ok());
  for (const int64_t step : {0, 1, 2}) ASSERT_TRUE(second.Record(FileStep(step), MonotonicNow()).ok());
  ASSERT_TRUE(first.Flush().ok());
  ASSERT_TRUE(second.Enter({.who = {.rank = 0}}, RunAt(3, 2), NoBarrier).ok());
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0", "1", "2"));
}

/// The power failed between a line and its newline.
TEST_F(RunFilesTest, LineWithoutItsNewlineIsNotWrittenAgain) {
  RunFiles second(In(folder_.path()));
  {
    RunFiles first(In(folder_.path()));
    ASSERT_TRUE(first.BecomeWriter(RunAt(0)).ok());
    for (const int64_t step : {0, 1}) ASSERT_TRUE(first.Record(FileStep(step), MonotonicNow()).ok());
  }
  for (const int64_t step : {0, 1}) ASSERT_TRUE(second.Record(FileStep(step), MonotonicNow()).ok());
  for (const char* name : {"/ledger.jsonl", "/metrics.jsonl"}) {
    const std::string path = folder_.path() + name;
    fs::resize_file(path, fs::file_size(path) - 1);
  }
  ASSERT_TRUE(second.BecomeWriter(RunAt(2, 2)).ok());
  ASSERT_TRUE(second.Flush().ok());
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0", "1"));
  const std::string metrics = ReadFile(folder_.path() + "/metrics.jsonl").value_or("");
  EXPECT_EQ(metrics.find("{\"step\":1,"), metrics.rfind("{\"step\":1,")) << metrics;
}

/// The writer's uplink was cut: it kept its files open while spares continued from a checkpoint and died.
TEST_F(RunFilesTest, ReturningWriterContinuesAfterOthersLines) {
  RunFiles first(In(folder_.path())), spare(In(folder_.path()));
  ASSERT_TRUE(first.BecomeWriter(RunAt(0)).ok());
  for (const int64_t step : {0, 1}) ASSERT_TRUE(first.Record(FileStep(step), MonotonicNow()).ok());
  ASSERT_TRUE(spare.BecomeWriter(RunAt(2, 2)).ok());
  FinishedStep step = FileStep(2);
  step.generation = 2;
  ASSERT_TRUE(spare.Record(step, MonotonicNow()).ok());
  ASSERT_TRUE(first.Flush().ok());  // its second step is not yet in the file
  ASSERT_TRUE(first.BecomeWriter(RunAt(2, 3)).ok());
  step.generation = 3;
  ASSERT_TRUE(first.Record(step, MonotonicNow()).ok());
  ASSERT_TRUE(first.Flush().ok());
  const std::string metrics = ReadFile(folder_.path() + "/metrics.jsonl").value_or("");
  EXPECT_THAT((std::vector<std::string>(absl::StrSplit(metrics, '\n', absl::SkipEmpty()))),
              ElementsAre(HasSubstr("\"step\":0,"), HasSubstr("\"step\":2,"), "{\"rewind\":2}",
                          HasSubstr("\"step\":2,")));
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0", "1", "2", "2"));
  const std::string ledger = ReadFile(folder_.path() + "/ledger.jsonl").value_or("");
  std::string previous = checkpoints::kLedgerStart;
  for (const absl::string_view line : absl::StrSplit(ledger, '\n', absl::SkipEmpty())) {
    EXPECT_THAT(std::string(line), HasSubstr(absl::StrCat("\"prev\":\"", previous, "\"")));
    previous = Sha256Hex(std::string(line));
  }
  EXPECT_THAT(ledger, HasSubstr(R"({"rewind":2,"generation":3,)"));
}

/// The member is drained a step behind the writer, which is saving that step.
TEST_F(RunFilesTest, SaveBesideTheWriterTakesNothingBack) {
  RunFiles writer(In(folder_.path())), behind(In(folder_.path()));
  ASSERT_TRUE(writer.BecomeWriter(RunAt(0)).ok());
  for (const int64_t step : {0, 1}) ASSERT_TRUE(writer.Record(FileStep(step), MonotonicNow()).ok());
  ASSERT_TRUE(writer.Flush().ok());
  const std::string ledger = ReadFile(folder_.path() + "/ledger.jsonl").value_or("");
  const std::string unfinished = absl::StrCat(folder_.path(), "/", checkpoints::PartialFolder(2, "1.1"));
  fs::create_directories(unfinished);

  behind.SaveBeside(RunAt(1));
  ASSERT_TRUE(behind.Save(Snapshot(1), {}, MonotonicNow()).ok());
  ASSERT_TRUE(behind.Wait().ok());
  EXPECT_EQ(*checkpoints::CompleteSteps(checkpoints::RealFiles(), folder_.path()), (std::vector<int64_t>{1}));
  EXPECT_EQ(ReadFile(folder_.path() + "/ledger.jsonl").value_or(""), ledger);
  EXPECT_TRUE(fs::exists(unfinished));
  ASSERT_TRUE(writer.Save(Snapshot(2), {}, MonotonicNow()).ok());
  ASSERT_TRUE(writer.Wait().ok());
  EXPECT_EQ(checkpoints::CompleteSteps(checkpoints::RealFiles(), folder_.path())->back(), 2);
}

TEST_F(RunFilesTest, RecordsOfAReplacedStateAreDiscarded) {
  RunFiles files(In(folder_.path()));
  ASSERT_TRUE(files.Record(FileStep(0), MonotonicNow()).ok());
  files.Forget(std::nullopt);
  ASSERT_TRUE(files.BecomeWriter(RunAt(1)).ok());
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre());
}

/// The writer died between a step and its line; another member saved the state or handed it over.
TEST_F(RunFilesTest, StateBringsTheRecordOfItsLastStep) {
  RunFiles first(In(folder_.path())), next(In(folder_.path()));
  ASSERT_TRUE(first.BecomeWriter(RunAt(0, 1, true)).ok());
  ASSERT_TRUE(first.Record(FileStep(0), MonotonicNow()).ok());
  next.Forget(FileStep(1));
  ASSERT_TRUE(next.BecomeWriter(RunAt(2, 2)).ok());
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0", "1"));
}

/// Generation 2 restarted from step 1 and died; a frozen node held the state of generation 1, at step 3.
TEST_F(RunFilesTest, WriterAccountsForTheBranchOfItsState) {
  RunFiles frozen(In(folder_.path()));
  {
    RunFiles writer(In(folder_.path()));
    ASSERT_TRUE(writer.BecomeWriter(RunAt(0, 1, true)).ok());
    for (const int64_t step : {0, 1, 2}) {
      ASSERT_TRUE(writer.Record(FileStep(step), MonotonicNow()).ok());
      ASSERT_TRUE(frozen.Record(FileStep(step), MonotonicNow()).ok());
    }
  }
  {
    RunFiles again(In(folder_.path()));
    ASSERT_TRUE(again.BecomeWriter(RunAt(1, 2)).ok());
    FinishedStep step = FileStep(1);
    step.generation = 2;
    ASSERT_TRUE(again.Record(step, MonotonicNow()).ok());
  }
  RunFiles::Start start = RunAt(3, 3);
  start.position = {1, 3};
  start.lineage = {{1, 0}};
  ASSERT_TRUE(frozen.BecomeWriter(start).ok());
  EXPECT_THAT(ReadFile(folder_.path() + "/ledger.jsonl").value_or(""),
              HasSubstr(R"({"rewind":3,"generation":3,"of":1,)"));
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0", "1", "2", "1", "0", "1", "2"))
      << "what it remembers again";
}

TEST_F(RunFilesTest, NodeWithItsOwnFolderSavesCopies) {
  RunFiles writer(In(folder_.path())), shares(In(folder_.path())), apart(In(other_.path()));
  // The writer marks its folder before other members look for the mark.
  ASSERT_TRUE(writer.Enter({.who = {.rank = 0, .nodes = 3}}, RunAt(0), Passed).ok());
  ASSERT_TRUE(shares.Enter({.who = {.rank = 1, .nodes = 3}}, RunAt(0), Passed).ok());
  ASSERT_TRUE(apart.Enter({.who = {.rank = 2, .nodes = 3}}, RunAt(0), Passed).ok());
  EXPECT_FALSE(shares.saves());
  EXPECT_TRUE(apart.saves());
  EXPECT_FALSE(apart.writes());
  ASSERT_TRUE(apart.Save(Snapshot(4), {}, MonotonicNow()).ok());
  ASSERT_TRUE(apart.Wait().ok());
  EXPECT_TRUE(fs::exists(other_.path() + "/step_4/DONE"));
  EXPECT_FALSE(fs::exists(other_.path() + "/metrics.jsonl"));
  EXPECT_FALSE(apart.Enter({.who = {.rank = 2, .nodes = 3}}, RunAt(4, 2), NoBarrier).ok())
      << "with several nodes all wait for the mark";
}

RunFiles::Start OfRun(uint64_t run, int64_t steps, uint64_t generation, bool fresh = false) {
  RunFiles::Start start = RunAt(steps, generation, fresh);
  start.run = run;
  return start;
}

checkpoints::Snapshot SnapshotOf(uint64_t run, int64_t step) {
  checkpoints::Snapshot snapshot = Snapshot(step);
  snapshot.state = checkpoints::EncodeRunState(
      {.run = run, .position = {1, step, false}, .identity = {}, .progress = nlohmann::json::object()});
  return snapshot;
}

/// Newcomers started over with folders of their own; then members returned whose run has more steps.
TEST_F(RunFilesTest, AbandonedRunLeavesTheFolderToTheWinningRun) {
  RunFiles begun(In(folder_.path())), copies(In(other_.path()));
  ASSERT_TRUE(begun.Enter({.who = {.rank = 0, .nodes = 2}}, OfRun(5, 0, 23, true), Passed).ok());
  ASSERT_TRUE(copies.Enter({.who = {.rank = 1, .nodes = 2}}, OfRun(5, 0, 23, true), Passed).ok());
  ASSERT_TRUE(begun.Record(FileStep(0), MonotonicNow()).ok());
  ASSERT_TRUE(copies.Save(SnapshotOf(5, 900), {}, MonotonicNow()).ok());
  ASSERT_TRUE(copies.Wait().ok());
  // The writer is now on another node.
  ASSERT_TRUE(begun.Enter({.who = {.rank = 1, .nodes = 3}}, OfRun(9, 500, 24), Passed).ok());
  ASSERT_TRUE(copies.Enter({.who = {.rank = 2, .nodes = 3}}, OfRun(9, 500, 24), Passed).ok());
  EXPECT_TRUE(begun.saves() && copies.saves());
  EXPECT_FALSE(fs::exists(other_.path() + "/step_900")) << "a restart would continue from it";
  EXPECT_TRUE(fs::exists(other_.path() + "/previous_1/step_900/DONE"));
  EXPECT_THAT(Ledger(folder_.path() + "/previous_1"), ElementsAre("0"));
  ASSERT_TRUE(copies.Save(SnapshotOf(9, 501), {}, MonotonicNow()).ok());
  ASSERT_TRUE(copies.Wait().ok());
  // One of them becomes the writer: its ledger contains only the winning run.
  ASSERT_TRUE(begun.Enter({.who = {.rank = 0, .nodes = 3}}, OfRun(9, 501, 25), Passed).ok());
  ASSERT_TRUE(copies.Enter({.who = {.rank = 1, .nodes = 3}}, OfRun(9, 501, 25), Passed).ok());
  EXPECT_EQ(*checkpoints::RunOfLedger(folder_.path() + "/ledger.jsonl"), 9u);
  EXPECT_TRUE(fs::exists(other_.path() + "/step_501")) << "of this run: it stays";
  EXPECT_FALSE(fs::exists(folder_.path() + "/previous_2"));
}

/// As above, in one folder: the files of the winning run were moved aside and return.
TEST_F(RunFilesTest, RunMovedAsideContinuesInItsOwnLedger) {
  RunFiles first(In(folder_.path())), begun(In(folder_.path()));
  ASSERT_TRUE(first.Enter({.who = {.rank = 0}}, OfRun(9, 0, 22, true), Passed).ok());
  for (const int64_t step : {0, 1}) ASSERT_TRUE(first.Record(FileStep(step), MonotonicNow()).ok());
  ASSERT_TRUE(begun.Enter({.who = {.rank = 0}}, OfRun(5, 0, 23, true), Passed).ok());
  ASSERT_TRUE(begun.Record(FileStep(0), MonotonicNow()).ok());
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0"));
  ASSERT_TRUE(first.Enter({.who = {.rank = 0}}, OfRun(9, 2, 24), Passed).ok());
  ASSERT_TRUE(first.Record(FileStep(2), MonotonicNow()).ok());
  EXPECT_THAT(Ledger(folder_.path()), ElementsAre("0", "1", "2"));
  EXPECT_FALSE(fs::exists(folder_.path() + "/previous_1"));
  EXPECT_EQ(*checkpoints::RunOfLedger(folder_.path() + "/previous_2/ledger.jsonl"), 5u);
}

TEST_F(RunFilesTest, ForeignLedgerBesideTheRunsCheckpointsIsRefused) {
  RunFiles other(In(folder_.path())), copies(In(folder_.path()));
  ASSERT_TRUE(other.Enter({.who = {.rank = 0}}, OfRun(5, 0, 1, true), Passed).ok());
  ASSERT_TRUE(other.Save(SnapshotOf(9, 3), {}, MonotonicNow()).ok());
  ASSERT_TRUE(other.Wait().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(copies.Enter({.who = {.rank = 0}}, OfRun(9, 3, 2), Passed)));
  EXPECT_TRUE(fs::exists(folder_.path() + "/step_3/DONE"));
}

TEST_F(RunFilesTest, MissingCheckpointIsReported) {
  EXPECT_THAT(RunFiles(In(folder_.path())).LastCheckpoint(), HasSubstr("No checkpoint exists in "));
}

/// Writes the steps from `first` on; the full disk may truncate any of them.
void RecordSteps(RunFiles& files, int64_t first, int64_t end) {
  for (int64_t step = first; step < end; ++step) ASSERT_TRUE(files.Record(FileStep(step), TimePoint()).ok());
}

TEST(RunFilesOnAFullDisk, WaitsForSpaceAndWritesEveryLineWhole) {
  const support::TemporaryFolder folder;
  const auto disk = support::SmallDisk::Make(folder.File("disk"), 256 << 10);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  const std::string path = folder.File("disk/run");
  int waits = 0;
  RunFiles::Options options = In(path);
  options.await_room = [&](const absl::Status& full) {
    EXPECT_THAT(std::string(full.message()), HasSubstr("No space left"));
    if (++waits % 2 == 0) (*disk)->Free();
    return true;
  };
  (*disk)->Fill();
  RunFiles files(options);
  ASSERT_TRUE(files.BecomeWriter(RunAt(0, 1, /*fresh=*/true)).ok());
  EXPECT_EQ(waits, 2);  // waits for the folder's creation
  RecordSteps(files, 0, 10);
  (*disk)->Fill();
  RecordSteps(files, 10, 110);  // more than fits in the partly filled pages
  EXPECT_GE(waits, 4);
  ASSERT_TRUE(files.Flush().ok());
  EXPECT_EQ(Ledger(path).size(), 110u);
  int lines = 0;
  for (const char* name : {"/ledger.jsonl", "/metrics.jsonl"}) {
    for (const absl::string_view line :
         absl::StrSplit(ReadFile(path + name).value_or(""), '\n', absl::SkipEmpty())) {
      ++lines;
      EXPECT_TRUE(absl::StartsWith(line, "{") && absl::EndsWith(line, "}")) << line;
    }
  }
  EXPECT_EQ(lines, 1 + 110 + 110);
}

TEST(RunFilesAtTheSizeLimit, WaitsUntilFilesMayBeLarger) {
  const support::TemporaryFolder folder;
  const std::string path = folder.File("run");
  int waits = 0;
  std::optional<support::FileSizeLimit> limit;
  RunFiles::Options options = In(path);
  options.await_room = [&](const absl::Status& full) {
    EXPECT_TRUE(IsAtSizeLimit(full)) << full;
    if (++waits == 2) limit.reset();
    return true;
  };
  RunFiles files(options);
  ASSERT_TRUE(files.BecomeWriter(RunAt(0, 1, /*fresh=*/true)).ok());
  limit.emplace(4096);
  RecordSteps(files, 0, 100);
  ASSERT_TRUE(files.Flush().ok());
  EXPECT_EQ(waits, 2);
  EXPECT_EQ(Ledger(path).size(), 100u);
}

TEST(RunFilesOnAFullDisk, MoreUrgentWorkEndsTheWait) {
  const support::TemporaryFolder folder;
  const auto disk = support::SmallDisk::Make(folder.File("disk"), 64 << 10);
  if (!disk.ok()) GTEST_SKIP() << disk.status().message();
  RunFiles::Options options = In(folder.File("disk/run"));
  options.await_room = [](const absl::Status&) { return false; };
  (*disk)->Fill();
  RunFiles files(options);
  EXPECT_TRUE(absl::IsUnavailable(files.BecomeWriter(RunAt(0))));
  EXPECT_FALSE(files.writes());
}

}  // namespace
}  // namespace mtrun::trainers

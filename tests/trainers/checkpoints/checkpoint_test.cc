#include "trainers/checkpoints/checkpoint.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "tests/support/sync_log.h"
#include "tests/trainers/checkpoints/support/fake_disk.h"
#include "tests/trainers/checkpoints/support/snapshots.h"
#include "trainers/checkpoints/manifest.h"
#include "trainers/checkpoints/run_state.h"

namespace mtrun::checkpoints {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Fault = FakeDisk::Fault;
using Survives = FakeDisk::Survives;

constexpr char kRun[] = "/run";
constexpr Survives kOutcomes[] = {Survives::kSyncedOnly, Survives::kNamesButNoUnsyncedBytes,
                                  Survives::kNamesAndHalfOfTheBytes, Survives::kEverything};

/// Returns a disk with a fully synced checkpoint of step 10.
FakeDisk DiskWithStep10() {
  FakeDisk disk;
  EXPECT_TRUE(disk.MakeFolder(kRun).ok());
  EXPECT_TRUE(disk.SyncFolder("").ok());
  EXPECT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(10), "1.7").ok());
  return disk;
}

int64_t NewestStep(FakeDisk& disk) {
  const auto search = FindNewest(disk, kRun);
  EXPECT_TRUE(search.ok()) << search.status();
  if (!search.ok() || !search->newest) return -1;
  EXPECT_EQ(search->newest->state, SnapshotOf(search->newest->step).state);
  const char expected = static_cast<char>(search->newest->step);
  EXPECT_EQ(search->newest->model.substr(search->newest->model.size() - 32), std::string(32, expected));
  return search->newest->step;
}

TEST(CheckpointTest, ReadsBackWhatWasWritten) {
  FakeDisk disk = DiskWithStep10();
  const auto search = FindNewest(disk, kRun);
  ASSERT_TRUE(search.ok() && search->newest);
  EXPECT_THAT(search->passed_over, IsEmpty());
  EXPECT_EQ(search->newest->path, "/run/step_10");
  const auto header = datasets::ParseSafetensorsHeader(BytesOf(search->newest->optimizer));
  ASSERT_TRUE(header.ok());
  EXPECT_NE(header->Find("momentum/0"), nullptr);
  EXPECT_THAT(*disk.List(kRun), ElementsAre("step_10"));
}

/// The fake disk sees which syncs are asked for; this sees that the real one performs them, in order.
TEST(CheckpointTest, RealFilesAreOnTheDiskBeforeTheStepHasItsName) {
  const auto folder = MakeTemporaryFolder("mtrun-synced-");
  ASSERT_TRUE(folder.ok()) << folder.status();
  support::SyncLog log(*folder);
  ASSERT_TRUE(WriteCheckpoint(RealFiles(), *folder, SnapshotOf(10), "2.7").ok());
  const std::string partial = PartialFolder(10, "2.7");
  EXPECT_THAT(log.Take(), ElementsAre(partial + "/model.safetensors", partial + "/optimizer.safetensors",
                                      partial + "/state.json", partial + "/DONE", partial, "."));
  std::filesystem::remove_all(*folder);
}

TEST(CheckpointTest, AnEmptyOrMissingRunFolderHasNone) {
  FakeDisk disk;
  const auto search = FindNewest(disk, "/nowhere");
  ASSERT_TRUE(search.ok());
  EXPECT_FALSE(search->newest);
}

TEST(CheckpointTest, SurvivesAMachineStopAtEveryOperation) {
  int stops = 0;
  for (int operation = 0;; ++operation) {
    FakeDisk disk = DiskWithStep10();
    disk.Plan(Fault::kStop, operation);
    const absl::Status status = WriteCheckpoint(disk, kRun, SnapshotOf(20), "2.7");
    if (!disk.fired()) {
      EXPECT_TRUE(status.ok()) << status;
      for (const Survives survives : kOutcomes) {
        FakeDisk later = disk.AfterStop(survives);
        EXPECT_EQ(NewestStep(later), 20) << "a save that said OK must stay";
      }
      break;
    }
    ++stops;
    EXPECT_FALSE(status.ok());
    for (const Survives survives : kOutcomes) {
      FakeDisk later = disk.AfterStop(survives);
      const int64_t newest = NewestStep(later);
      EXPECT_TRUE(newest == 10 || newest == 20) << "operation " << operation << ", found " << newest;
      // The run that continues from there can save again, whatever is left.
      EXPECT_TRUE(RemovePartialFolders(later, kRun, [](const std::string&) { return true; }).ok());
      EXPECT_TRUE(WriteCheckpoint(later, kRun, SnapshotOf(20), "3.9").ok());
      EXPECT_EQ(NewestStep(later), 20);
    }
  }
  EXPECT_GE(stops, 17) << "fewer operations than a save is made of";
}

TEST(CheckpointTest, ReportsAFailureOfEveryOperation) {
  for (int operation = 0;; ++operation) {
    FakeDisk disk = DiskWithStep10();
    disk.Plan(Fault::kError, operation);
    const absl::Status status = WriteCheckpoint(disk, kRun, SnapshotOf(20), "2.7");
    if (!disk.fired()) break;
    EXPECT_FALSE(status.ok()) << "operation " << operation;
    EXPECT_THAT(std::string(status.message()), HasSubstr("fault at operation"))
        << "the first failure is told";
    const int64_t newest = NewestStep(disk);
    EXPECT_TRUE(newest == 10 || newest == 20);
    EXPECT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(20), "2.7").ok()) << "the next save clears it";
    EXPECT_EQ(NewestStep(disk), 20);
    EXPECT_THAT(*disk.List(kRun), ElementsAre("step_10", "step_20"));
  }
}

TEST(CheckpointTest, ShortWritesLoseNothing) {
  for (int operation = 0; operation < 40; ++operation) {
    FakeDisk disk = DiskWithStep10();
    disk.Plan(Fault::kShortWrite, operation);
    EXPECT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(20), "2.7").ok());
    EXPECT_EQ(NewestStep(disk), 20);
  }
}

TEST(CheckpointTest, FlippedBitsAreDetected) {
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile, kDoneFile}) {
    FakeDisk disk = DiskWithStep10();
    ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(20), "2.7").ok());
    std::string* bytes = disk.Bytes(absl::StrCat("/run/step_20/", name));
    ASSERT_NE(bytes, nullptr);
    for (size_t at = 0; at < bytes->size(); ++at) {
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1);
      const auto search = FindNewest(disk, kRun);
      ASSERT_TRUE(search.ok() && search->newest);
      // A flipped bit in DONE's white space is harmless; it must be detected anywhere else.
      if (search->newest->step == 20) {
        EXPECT_STREQ(name, kDoneFile);
        EXPECT_EQ(search->newest->state, SnapshotOf(20).state);
      } else {
        EXPECT_EQ(search->newest->step, 10);
        EXPECT_THAT(search->passed_over, ElementsAre(HasSubstr("step_20: ")));
      }
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1);
    }
  }
}

TEST(CheckpointTest, TruncatedAndMissingFilesAreNamed) {
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile}) {
    FakeDisk disk = DiskWithStep10();
    ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(20), "2.7").ok());
    disk.Bytes(absl::StrCat("/run/step_20/", name))->pop_back();
    EXPECT_THAT(FindNewest(disk, kRun)->passed_over, ElementsAre(HasSubstr(name)));
    ASSERT_TRUE(disk.Remove(absl::StrCat("/run/step_20/", name)).ok());
    EXPECT_THAT(FindNewest(disk, kRun)->passed_over, ElementsAre(HasSubstr(name)));
    EXPECT_EQ(NewestStep(disk), 10);
  }
}

TEST(CheckpointTest, ADamagedStepIsMovedAsideWhenItIsSavedAgain) {
  FakeDisk disk = DiskWithStep10();
  disk.Bytes("/run/step_10/model.safetensors")->back() ^= 1;
  ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(10), "2.7").ok());
  EXPECT_EQ(NewestStep(disk), 10);
  EXPECT_THAT(*disk.List(kRun), ElementsAre(".step_10.damaged-2.7", "step_10"));
}

TEST(CheckpointTest, AnIntactStepIsLeftAlone) {
  FakeDisk disk = DiskWithStep10();
  disk.Plan(Fault::kNone, 0);
  ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(10), "2.7").ok());
  EXPECT_EQ(disk.operations(), 1) << "only the run folder is made sure of";
}

TEST(CheckpointTest, FullDiskIsReportedBeforeTheFirstByte) {
  FakeDisk disk = DiskWithStep10();
  disk.free_bytes = 100;
  const absl::Status status = WriteCheckpoint(disk, kRun, SnapshotOf(20), "2.7");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("MiB free"));
  EXPECT_THAT(*disk.List(kRun), ElementsAre("step_10"));
}

TEST(CheckpointTest, CheckpointWithoutPermissionToCommitLeavesNothing) {
  FakeDisk disk = DiskWithStep10();
  Snapshot snapshot = SnapshotOf(20);
  snapshot.may_commit = [] { return absl::UnavailableError("the lease is over"); };
  EXPECT_TRUE(absl::IsUnavailable(WriteCheckpoint(disk, kRun, snapshot, "1.7")));
  EXPECT_THAT(*disk.List(kRun), ElementsAre("step_10"));
  snapshot.may_commit = [] { return absl::OkStatus(); };
  EXPECT_TRUE(WriteCheckpoint(disk, kRun, snapshot, "1.7").ok());
  EXPECT_EQ(NewestStep(disk), 20);
}

/// The lease can expire while the existing step is being read.
TEST(CheckpointTest, CheckpointThatLosesPermissionToCommitReplacesNothing) {
  FakeDisk disk;
  ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOfGeneration(8, 74), "8.1").ok());
  Snapshot snapshot = SnapshotOfGeneration(12, 74);
  int asked = 0;
  snapshot.may_commit = [&asked] {
    return ++asked == 1 ? absl::OkStatus() : absl::UnavailableError("the lease is over");
  };
  EXPECT_TRUE(absl::IsUnavailable(WriteCheckpoint(disk, kRun, snapshot, "12.1")));
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(FindNewest(disk, kRun)->newest->model.back(), 8);
  EXPECT_THAT(*disk.List(kRun), ElementsAre("step_74"));
}

/// If names can be exchanged, the old or the new step always exists; otherwise the step before it does.
TEST(CheckpointTest, SurvivesAMachineStopWhileAStepIsReplaced) {
  for (const bool exchanges : {true, false}) {
    for (int operation = 0;; ++operation) {
      FakeDisk disk;
      disk.exchanges = exchanges;
      ASSERT_TRUE(disk.MakeFolder(kRun).ok() && disk.SyncFolder("").ok());
      ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOfGeneration(8, 73), "8.1").ok());
      ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOfGeneration(8, 74), "8.1").ok());
      disk.Plan(Fault::kStop, operation);
      const absl::Status status = WriteCheckpoint(disk, kRun, SnapshotOfGeneration(12, 74), "12.1");
      for (const Survives survives : kOutcomes) {
        FakeDisk later = disk.AfterStop(survives);
        const auto newest = FindNewest(later, kRun)->newest;
        ASSERT_TRUE(newest) << operation;
        EXPECT_TRUE(!exchanges || newest->step == 74) << operation;
        EXPECT_TRUE(disk.fired() || newest->model.back() == 12);
        const bool kept = newest->model.back() == 8 || later.Exists("/run/branch_8_step_74/DONE");
        EXPECT_TRUE(kept) << "the superseded one is lost at operation " << operation;
      }
      if (disk.fired()) continue;
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_THAT(*disk.List(kRun), ElementsAre("branch_8_step_74", "step_73", "step_74"));
      break;
    }
  }
}

/// It may be intact, and must be neither moved away by a new run nor reported as damaged by a save.
TEST(CheckpointTest, UnreadableCheckpointIsNotTreatedAsDamaged) {
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile, kDoneFile}) {
    FakeDisk disk = DiskWithStep10();
    disk.refused[absl::StrCat("/run/step_10/", name)] =
        absl::PermissionDeniedError("open: Permission denied");
    const absl::Status alone = FindNewest(disk, kRun).status();
    EXPECT_TRUE(absl::IsPermissionDenied(alone)) << alone;
    EXPECT_THAT(std::string(alone.message()), HasSubstr("/run has a checkpoint that cannot be read"));
    EXPECT_TRUE(absl::IsPermissionDenied(WriteCheckpoint(disk, kRun, SnapshotOf(10), "2.7"))) << name;
    EXPECT_THAT(*disk.List(kRun), ElementsAre("step_10"));
    ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(5), "1.7").ok());
    EXPECT_THAT(FindNewest(disk, kRun)->passed_over, ElementsAre(HasSubstr("Permission denied")))
        << "an earlier one that is whole serves";
    EXPECT_EQ(NewestStep(disk), 5);
  }
}

TEST(CheckpointTest, StepWithAnUnreadablePositionIsTriedAndKept) {
  FakeDisk disk;
  for (const int64_t step : {70, 80})
    ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOfGeneration(8, step), "8.1").ok());
  disk.Bytes("/run/step_80/state.json")->front() = '[';
  const auto search = FindNewest(disk, kRun);
  EXPECT_EQ(search->newest->step, 70);
  EXPECT_THAT(search->passed_over, ElementsAre(HasSubstr("step_80: ")));
  ASSERT_TRUE(RemoveOldSteps(disk, kRun, 70, StateAt(9, 70, {{9, 0}}), 1, std::nullopt).ok());
  EXPECT_THAT(*disk.List(kRun), ElementsAre("step_70", "step_80"));
}

TEST(CheckpointTest, SurvivesAMachineStopWhileOldStepsAreRemoved) {
  for (int operation = 0;; ++operation) {
    FakeDisk disk = DiskWithStep10();
    for (const int64_t step : {20, 30, 40})
      ASSERT_TRUE(WriteCheckpoint(disk, kRun, SnapshotOf(step), "1").ok());
    disk.Plan(Fault::kStop, operation);
    const absl::Status status = RemoveOldSteps(disk, kRun, 40, std::nullopt, 2, 10);
    for (const Survives survives : kOutcomes) {
      FakeDisk later = disk.AfterStop(survives);
      EXPECT_EQ(NewestStep(later), 40);
      EXPECT_THAT(FindNewest(later, kRun)->passed_over, IsEmpty()) << "a removal left a half-removed step";
    }
    if (disk.fired()) continue;
    EXPECT_TRUE(status.ok());
    EXPECT_THAT(*disk.List(kRun), ElementsAre("step_10", "step_30", "step_40"));
    break;
  }
}

TEST(ManifestTest, StepNamesMatchExactly) {
  EXPECT_EQ(ParseStepFolder("step_0"), 0);
  EXPECT_EQ(ParseStepFolder("step_1200"), 1200);
  for (const char* name :
       {"step_", "step_01", "step_-1", "step_1x", "Step_1", ".step_1.partial-2", "step_ 1"}) {
    EXPECT_EQ(ParseStepFolder(name), std::nullopt) << name;
  }
  EXPECT_TRUE(IsPartialFolder(PartialFolder(3, "1.2")));
  EXPECT_FALSE(IsPartialFolder("step_3"));
}

TEST(ManifestTest, RoundTripsAndRefusesInvalidText) {
  const Manifest manifest = {{"a", {3, std::string(64, 'a')}}, {"b", {0, std::string(64, '0')}}};
  EXPECT_EQ(*DecodeManifest(EncodeManifest(manifest)), manifest);
  for (const char* text :
       {"", "[]", "{}", R"({"format":"mtrun-checkpoint","version":1,"files":{}})",
        R"({"format":"mtrun-checkpoint","version":1,"files":{"a":{"bytes":-1,"sha256":"00"}}})",
        R"({"format":"mtrun-checkpoint","version":1,"files":{"a":3}})", R"({"format":3})"}) {
    EXPECT_FALSE(DecodeManifest(text).ok()) << text;
  }
  const std::string digest(64, 'a');
  EXPECT_FALSE(
      DecodeManifest(absl::StrCat(R"({"format":"mtrun-checkpoint","version":1,"files":{"a":{"bytes":)",
                                  ~uint64_t{0}, R"(,"sha256":")", digest, "\"}}}"))
          .ok());
  EXPECT_EQ(DecodeManifest(R"({"format":"mtrun-checkpoint","version":2,"files":{}})").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ManifestTest, RetentionKeepsTheNewestAndTheBest) {
  EXPECT_THAT(StepsToRemove({30, 10, 20, 40}, 40, 2, std::nullopt), ElementsAre(10, 20));
  EXPECT_THAT(StepsToRemove({30, 10, 20, 40}, 40, 2, 10), ElementsAre(20));
  EXPECT_THAT(StepsToRemove({10}, 10, 0, std::nullopt), IsEmpty()) << "one always stays";
  EXPECT_THAT(StepsToRemove({}, 10, 2, 5), IsEmpty());
  EXPECT_THAT(StepsToRemove({10, 20, 80}, 20, 1, std::nullopt), ElementsAre(10)) << "80 was passed over";
}

}  // namespace
}  // namespace mtrun::checkpoints

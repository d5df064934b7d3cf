// The files of a run as one member sees them: all if it is the writer, only checkpoints if its node does not
// share the writer's folder, none otherwise. Remembers the last steps, because a new writer records those
// that its predecessor could not. Training thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainers/checkpoints/lineage.h"
#include "trainers/checkpoints/position.h"
#include "trainers/membership/assignment.h"
#include "trainers/run/files/checkpoint_writer.h"
#include "trainers/run/files/run_folder.h"
#include "trainers/run/records/finished_step.h"
#include "trainers/run/rules/lifecycle.h"

namespace mtrun::trainers {

class RunFiles {
 public:
  struct Options {
    std::string path;                // --model_folder
    std::string settings;            // config.yaml
    std::string environment = "";    // environment.json; "": none
    bool tensorboard = false;        // tb/
    checkpoints::LedgerHead ledger;  // its run is set when the files are opened
    int keep_last = 3;               // checkpoints
    Duration grace = {};             // from a polite signal to SIGKILL; zero: unknown
    bool remember = false;           // keep steps, in case this member becomes the writer
    std::function<std::string(int64_t step)> sample_ids;  // digest of a step's samples, for the ledger
    /// Called with the error while the disk is full or read-only: pauses, and returns whether to try again.
    /// If null, nothing is tried again.
    std::function<bool(const absl::Status& full)> await_room = nullptr;
  };
  /// State of the run when the files are opened.
  struct Start {
    uint64_t run = 0, generation = 1;
    checkpoints::Position position = {};       // position of the state
    checkpoints::Lineage lineage = {};         // ancestry of the state
    bool fresh = false;                        // the run begins: the files of an earlier run are moved aside
    double last_save_seconds = 0;              // the run's; 0: unknown
    std::string why = "";                      // why the previous generation ended, or the run continues
    std::vector<EvalRecord> evaluations = {};  // the run's so far
    std::vector<int64_t> confusion = {};       // the last evaluation's; empty without classes
    std::vector<std::string> machines = {};    // kinds that compute the run
  };
  /// This member's place in a generation.
  struct Place {
    Assignment who = {};
    int writer = 0;         // its rank
    uint64_t assigned = 0;  // the generation's number at the rendezvous
  };

  explicit RunFiles(Options options) : options_(std::move(options)) {}

  /// Enters a generation. With several nodes, calls `barrier` once on every member, which returns after all
  /// have called it. Moves files of another run aside, because this generation has agreed on this run.
  absl::Status Enter(const Place& place, const Start& start, const std::function<absl::Status()>& barrier);
  /// Makes this member the writer, even outside a generation.
  absl::Status BecomeWriter(const Start& start);
  /// Lets this member save checkpoints in a folder whose writer may be active, and change nothing else there.
  void SaveBeside(const Start& start);
  /// Forgets the remembered steps after a take-over from another member or a checkpoint, except its `last`.
  void Forget(const std::optional<FinishedStep>& last);

  bool writes() const { return folder_ != nullptr; }
  /// Returns whether it writes curves for TensorBoard too.
  bool draws() const { return folder_ != nullptr && options_.tensorboard; }
  bool saves() const { return folder_ != nullptr || copies_ != nullptr; }
  /// Returns the seconds that the last save took; 0 if unknown, or if this member does not save.
  double last_save_seconds() const { return folder_ || copies_ ? Writer().last_seconds() : 0; }

  /// Records a step. If the disk is full, this and every other write waits, and nothing is lost. Returns
  /// kUnavailable if Options::await_room gives up.
  absl::Status Record(const FinishedStep& step, TimePoint now);
  /// These do nothing if this member is not the writer.
  absl::Status Record(const EvalRecord& record, const ConfusionMatrix& matrix = ConfusionMatrix(0));
  template <typename Line>
  absl::Status Record(const Line& record) {
    return folder_ ? Keep(folder_->Record(record)) : absl::OkStatus();
  }
  /// Adds the PNG file at `path`, which shows the state after `steps`, to the curves. Ignores it if it cannot
  /// be read.
  void AddPicture(std::string_view tag, int64_t steps, const std::string& path);
  /// Writes what is still in memory, because another member may be the next writer.
  absl::Status Flush();

  /// Submits a checkpoint. `best`: steps of the one that is always kept; `began`: start of the snapshot.
  /// REQUIRES: saves().
  absl::Status Save(checkpoints::Snapshot snapshot, std::optional<int64_t> best, TimePoint began);
  /// Calls `write`, which must be repeatable. If the disk is full, waits for disk space.
  absl::Status WithRoom(const std::function<absl::Status()>& write) { return AwaitRoom(write(), write); }
  /// Waits for the disk; returns the last save's status, or OK if this member does not save.
  absl::Status Wait();
  /// Returns "The last good checkpoint is ..." or that there is none.
  std::string LastCheckpoint();

 private:
  absl::Status RecordGeneration(const Place& place, const Start& start);
  absl::Status FindRole(const Place& place, const Start& start, const std::function<absl::Status()>& barrier);
  bool ContinuesAt(const Start& start) const;
  checkpoints::LedgerBegin BeginOf(const Start& start) const;
  absl::Status ClearFolder(const Start& start) const;
  absl::Status OpenCopies(const Start& start);
  absl::Status OpenFolder(const Start& start);
  absl::Status Write(const FinishedStep& step, TimePoint now);
  absl::Status Keep(const absl::Status& written);
  absl::Status AwaitRoom(absl::Status done, const std::function<absl::Status()>& again) const;
  CheckpointWriter::Options WriterOptions(const Start& start) const;
  CheckpointWriter& Writer() const { return folder_ ? folder_->checkpoints() : *copies_; }

  const Options options_;
  std::unique_ptr<RunFolder> folder_;  // on the writer
  // Exists on a node with its own folder, in case the writer's folder is lost.
  std::unique_ptr<CheckpointWriter> copies_;
  uint64_t run_ = 0;  // the run of these files
  std::deque<FinishedStep> recent_;
};

}  // namespace mtrun::trainers

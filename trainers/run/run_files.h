// The files of a run as one member sees them: all of them where it is the writer, checkpoints alone where its
// node does not share the writer's folder, none otherwise. What the last steps were is remembered, for a new
// writer records what its predecessor could not. Training thread only.
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
#include "trainers/run/checkpoint_writer.h"
#include "trainers/run/finished_step.h"
#include "trainers/run/lifecycle.h"
#include "trainers/run/run_folder.h"

namespace mtrun::trainers {

class RunFiles {
 public:
  struct Options {
    std::string path;                // --model_folder
    std::string settings;            // config.yaml
    std::string environment = "";    // environment.json, "": none
    bool tensorboard = false;        // tb/
    checkpoints::LedgerHead ledger;  // its run is filled in when the files are opened
    int keep_last = 3;               // checkpoints
    Duration grace = {};             // from a polite signal to SIGKILL, zero: unknown
    bool remember = false;           // steps, for the case that this member becomes the writer
    std::function<std::string(int64_t step)> sample_ids;  // digest of a step's samples, for the ledger
    /// Called while the disk is full or read-only, with its error: pauses, and returns whether to try again. Null:
    /// never.
    std::function<bool(const absl::Status& full)> await_room = nullptr;
  };
  /// What the files are opened for.
  struct Start {
    uint64_t run = 0, generation = 1;
    checkpoints::Position position = {};       // of the state
    checkpoints::Lineage lineage = {};         // of the state
    bool fresh = false;                        // the run begins: what an earlier one left moves aside
    double last_save_seconds = 0;              // of the run, 0: not known
    std::string why = "";                      // the generation before this one ended, or the run goes on
    std::vector<EvalRecord> evaluations = {};  // of the run so far
    std::vector<int64_t> confusion = {};       // of the last one; empty without classes
  };
  /// Who this member is in a generation.
  struct Place {
    int rank = 0, writer = 0, nodes = 1;
    bool first_on_node = true;
    int world = 1;
    std::vector<MemberNode> members = {};
    uint64_t assigned = 0;  // the generation's number at the rendezvous
  };

  explicit RunFiles(Options options) : options_(std::move(options)) {}

  /// A generation begins. With several nodes `barrier` is called once on every member: until all have. What
  /// is of another run in the folder moves aside, for this generation has agreed on this one.
  absl::Status Enter(const Place& place, const Start& start, const std::function<absl::Status()>& barrier);
  /// This member becomes the writer, outside of a generation too.
  absl::Status BecomeWriter(const Start& start);
  /// This member saves checkpoints in a folder whose writer may be at work, and touches nothing else there.
  void SaveBeside(const Start& start);
  /// The state of another member, or of a checkpoint, counts: of its steps the last one is known.
  void Forget(const std::optional<FinishedStep>& last);

  bool writes() const { return folder_ != nullptr; }
  /// Curves for TensorBoard, too.
  bool draws() const { return folder_ != nullptr && options_.tensorboard; }
  bool saves() const { return folder_ != nullptr || copies_ != nullptr; }
  /// What the last checkpoint took to be written, 0: not known. Only where it saves.
  double last_save_seconds() const { return folder_ || copies_ ? Writer().last_seconds() : 0; }

  /// A full disk is waited for: here and wherever something is written, nothing is lost meanwhile.
  /// kUnavailable: Options::await_room does not want to wait any more.
  absl::Status Record(const FinishedStep& step, TimePoint now);
  /// No-ops where this member is not the writer.
  absl::Status Record(const EvalRecord& record, const ConfusionMatrix& matrix = ConfusionMatrix(0));
  absl::Status Record(const RegroupRecord& record);
  absl::Status Record(const DataWaitRecord& record);
  absl::Status Record(const WorkersRecord& record);
  /// For the curves alone: what a PNG file shows of the state after `steps`. One that cannot be read is left
  /// out.
  void AddPicture(std::string_view tag, int64_t steps, const std::string& path);
  /// What is still in memory goes to the file: another member may be the writer next.
  absl::Status Flush();

  /// Hands a checkpoint over. `best`: steps of the one to keep whatever its age; `began`: when it was taken.
  /// Only where it saves.
  absl::Status Save(checkpoints::Snapshot snapshot, std::optional<int64_t> best, TimePoint began);
  /// Does `write`, which may be done over, and waits for room where the disk is full.
  absl::Status WithRoom(const std::function<absl::Status()>& write) { return AwaitRoom(write(), write); }
  /// Waits for the disk; the last save's status. OK where it does not save.
  absl::Status Wait();
  /// "The last good checkpoint is ..." or that there is none.
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
  std::unique_ptr<CheckpointWriter>
      copies_;        // on a node with a folder of its own, should the writer's be lost
  uint64_t run_ = 0;  // whose files these are
  std::deque<FinishedStep> recent_;
};

}  // namespace mtrun::trainers

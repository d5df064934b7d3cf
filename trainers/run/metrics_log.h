// metrics.jsonl: one JSON object a line for each step and each evaluation, losses in full precision
// (docs/formats.md). Lines gather in memory and are written about once a second, at each evaluation and at
// the end. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"
#include "trainers/membership/assignment.h"
#include "trainers/step/step_sums.h"

namespace mtrun::trainers {

struct StepRecord {
  int64_t step = 0, epoch = 0;  // 0-based step of the run, 1-based epoch
  double loss = 0, learning_rate = 0;
  int64_t samples = 0;
  double seconds = 0;
  bool skipped = false;  // by loss scaling; a line says so only then
  bool operator==(const StepRecord&) const = default;
};

struct EvalRecord {
  int64_t steps = 0, epoch = 0;               // finished steps and epochs
  double train_loss = 0, train_accuracy = 0;  // means over the epoch's steps, with the weights of each step
  double test_loss = 0, test_accuracy = 0;
  double seconds = 0;                    // training part of the epoch
  std::optional<double> test_top5 = {};  // of many classes: right among the first five guesses
  bool classified = true;                // false: the task has no classes, and the line no accuracies
  bool validation = false;  // the evaluated images are not the test's: the line says val_ for test_
  bool operator==(const EvalRecord&) const = default;
};

/// A new membership, from the moment its predecessor broke: seconds until the agent's assignment came, until
/// the group was connected, until all had the same state, until the first step was done.
struct RegroupRecord {
  uint64_t generation = 0;
  int world = 1;
  int64_t steps = 0;  // finished
  double assign = 0, connect = 0, state = 0, first_step = 0;
  double seconds() const { return assign + connect + state + first_step; }
};

/// A checkpoint was handed to the thread that writes it.
struct SaveRecord {
  int64_t steps = 0;  // finished
  int64_t bytes = 0;  // of tensors
  double stall = 0;   // seconds without a step because of it
};

/// The writer waited for data from a server.
struct DataWaitRecord {
  int64_t steps = 0;  // finished
  double seconds = 0;
};

/// A membership begins to train behind `steps` finished steps.
struct GenerationRecord {
  uint64_t generation = 0;
  uint64_t assigned = 0;  // its number at the rendezvous, 0: there is none
  int64_t steps = 0;
  int world = 1;
  std::vector<MemberNode> members;  // by node; empty where no launcher says who they are
  std::string why;                  // why the one before it ended; "" of a run's first one
  double time = 0;                  // seconds since 1970
};

/// Means of the last steps, of each worker's own clock.
struct WorkersRecord {
  int64_t steps = 0;             // finished
  std::vector<StepTimes> times;  // by rank, of one step
  std::optional<int> straggler;  // the rank that is slow
};

/// `{"step":0,"epoch":1,"loss":2.3025850929940459,"lr":0.001,"samples":16,"seconds":0.0009}`, numbers as
/// %.17g.
std::string ToLine(const StepRecord& record);
/// `{"eval":1,...}`.
std::string ToLine(const EvalRecord& record);
/// `{"regroup":2,"world":3,"steps":500,"assign":0.003,...}`.
std::string ToLine(const RegroupRecord& record);
/// `{"data_wait":12.5,"steps":0}`.
std::string ToLine(const DataWaitRecord& record);
/// `{"save":500,"bytes":134087520,"stall":0.021}`.
std::string ToLine(const SaveRecord& record);
/// `{"generation":2,"assigned":2,"steps":500,"world":3,"members":[["node1",2],["node2",1]],"why":"...","time":...}`.
/// Of very many members the first ones.
std::string ToLine(const GenerationRecord& record);
/// `{"workers":500,"compute":[0.0121,...],"wait":[...],"data":[...],"straggler":3}`. Of very many workers the
/// first ones.
std::string ToLine(const WorkersRecord& record);

class MetricsLog {
 public:
  /// Continues a file or starts it. Steps of the file that are taken back, those from `step` on, get a line
  /// `{"rewind":<step>}` behind them: what follows counts.
  static absl::StatusOr<MetricsLog> Continue(const std::string& path, int64_t step);
  MetricsLog(MetricsLog&&) = default;
  ~MetricsLog();

  /// kResourceExhausted: the disk is full, and what it has no room for is written by the next Flush.
  absl::Status Write(const StepRecord& record, TimePoint now);
  absl::Status Write(const EvalRecord& record);
  absl::Status Write(const RegroupRecord& record);
  absl::Status Write(const SaveRecord& record);
  absl::Status Write(const DataWaitRecord& record);
  absl::Status Write(const GenerationRecord& record);
  absl::Status Write(const WorkersRecord& record);
  absl::Status Flush();
  /// What has not been written never is.
  void Drop() { pending_.clear(); }
  /// The next step's line goes to the file at once, with all before it.
  bool WillFlush(TimePoint now) const;
  /// One more than the last step in the file when it was opened, after rewinds; 0 for an empty file.
  int64_t next_step() const { return next_step_; }

 private:
  MetricsLog(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  /// A line that stands in the file.
  void Follow(const std::string& line);

  std::string path_;
  UniqueFd file_;
  std::string pending_;
  TimePoint flushed_{};
  int64_t next_step_ = 0;
};

}  // namespace mtrun::trainers

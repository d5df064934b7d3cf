// metrics.jsonl: one JSON object per line for each step and each evaluation, with losses in full precision
// (docs/formats.md). Lines are collected in memory and written about once a second, at each evaluation and at
// the end. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
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
  bool skipped = false;  // by loss scaling; only a skipped step's line has it
  bool operator==(const StepRecord&) const = default;
};

struct EvalRecord {
  int64_t steps = 0, epoch = 0;               // finished steps and epochs
  double train_loss = 0, train_accuracy = 0;  // means over the epoch's steps, with the weights of each step
  double test_loss = 0, test_accuracy = 0;
  double seconds = 0;                    // training part of the epoch
  std::optional<double> test_top5 = {};  // with many classes: the label is among the first five guesses
  bool classified = true;                // false: the task has no classes, and the line no accuracies
  bool validation = false;               // on validation images: the line has val_ instead of test_
  bool operator==(const EvalRecord&) const = default;
};

/// A new membership. Seconds from the break of the previous one to the agent's assignment, from there to the
/// connected group, to the same state on all members, and to the end of the first step.
struct RegroupRecord {
  uint64_t generation = 0;
  int world = 1;
  int64_t steps = 0;  // finished
  double assign = 0, connect = 0, state = 0, first_step = 0;
  double seconds() const { return assign + connect + state + first_step; }
};

/// A checkpoint that was submitted to the thread that writes it.
struct SaveRecord {
  int64_t steps = 0;  // finished
  int64_t bytes = 0;  // of tensors
  double stall = 0;   // seconds without a step because of it
};

/// A wait of the writer for data from a server.
struct DataWaitRecord {
  int64_t steps = 0;  // finished
  double seconds = 0;
};

/// A membership that begins to train after `steps` finished steps.
struct GenerationRecord {
  uint64_t generation = 0;
  uint64_t assigned = 0;  // its number at the rendezvous; 0: there is none
  int64_t steps = 0;
  int world = 1;
  std::vector<MemberNode> members;         // by node; empty if no launcher names them
  std::string why;                         // why the previous generation ended; "" for a run's first one
  double time = 0;                         // Unix time in seconds
  std::vector<std::string> machines = {};  // kinds of those that compute it, and have before (machines.h)
};

/// Means over the last steps, by each worker's own clock.
struct WorkersRecord {
  int64_t steps = 0;             // finished
  std::vector<StepTimes> times;  // by rank, per step
  std::optional<int> straggler;  // the rank that is slow
};

/// Records that are written at once, with all lines before them; the others wait for the next flush.
template <typename Record>
inline constexpr bool kWrittenAtOnce =
    std::is_same_v<Record, EvalRecord> || std::is_same_v<Record, RegroupRecord> ||
    std::is_same_v<Record, GenerationRecord>;

/// Formats `{"step":0,"epoch":1,"loss":2.3025850929940459,"lr":0.001,"samples":16,"seconds":0.0009}`, with
/// numbers as %.17g.
std::string ToLine(const StepRecord& record);
/// Formats `{"eval":1,...}`.
std::string ToLine(const EvalRecord& record);
/// Formats `{"regroup":2,"world":3,"steps":500,"assign":0.003,...}`.
std::string ToLine(const RegroupRecord& record);
/// Formats `{"data_wait":12.5,"steps":0}`.
std::string ToLine(const DataWaitRecord& record);
/// Formats `{"save":500,"bytes":134087520,"stall":0.021}`.
std::string ToLine(const SaveRecord& record);
/// Formats this line, with only the first ones of very many members:
/// `{"generation":2,"assigned":2,"steps":500,"world":3,"members":[["node1",2],...],"why":"...","time":...}`.
std::string ToLine(const GenerationRecord& record);
/// Formats `{"workers":500,"compute":[0.0121,...],"wait":[...],"data":[...],"straggler":3}`, with at most the
/// first 1000 workers.
std::string ToLine(const WorkersRecord& record);

class MetricsLog {
 public:
  /// Opens a file to continue it, or creates it. If it has steps from `step` on, appends a line
  /// `{"rewind":<step>}`, which replaces them by the lines that follow.
  static absl::StatusOr<MetricsLog> Continue(const std::string& path, int64_t step);
  MetricsLog(MetricsLog&&) = default;
  ~MetricsLog();

  /// Adds a line. If the disk is full, returns kResourceExhausted; the next Flush writes the rest.
  absl::Status Write(const StepRecord& record, TimePoint now);
  template <typename Record>
  absl::Status Write(const Record& record) {
    pending_ += ToLine(record);
    return kWrittenAtOnce<Record> ? Flush() : absl::OkStatus();
  }
  absl::Status Flush();
  /// Discards the lines that have not been written.
  void Drop() { pending_.clear(); }
  /// Returns whether the next step's line will be written at once, with all lines before it.
  bool WillFlush(TimePoint now) const;
  /// Returns one more than the last step in the file when it was opened, after rewinds; 0 if it was empty.
  int64_t next_step() const { return next_step_; }

 private:
  MetricsLog(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  /// Updates next_step_ from a line of the file.
  void Follow(const std::string& line);

  std::string path_;
  UniqueFd file_;
  std::string pending_;
  TimePoint flushed_{};
  int64_t next_step_ = 0;
};

}  // namespace mtrun::trainers

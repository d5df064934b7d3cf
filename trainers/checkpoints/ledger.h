// ledger.jsonl records the samples that each step consumed, and its generation, to prove "exactly once"
// (docs/formats.md, "The ledger"; tools/verify_ledger reads it). Each line has the digest of the previous
// line, so that a loss in the middle is detected. The steps on the lineage of the highest generation count,
// wherever their lines are. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"
#include "datasets/order/sample_sum.h"
#include "datasets/order/sampler.h"
#include "trainers/checkpoints/lineage.h"

namespace mtrun::checkpoints {

/// First line of a file: everything that the sample ids are a function of.
struct LedgerHead {
  uint64_t run = 0;
  uint64_t seed = 0;
  int64_t size = 0;  // samples of an epoch
  int64_t global_batch = 1, micro_batch = 1;
  datasets::Shuffle shuffle = datasets::Shuffle::kFull;
  datasets::StreamShards shards = {};  // given if the order is streamed
  std::string data;                    // digest of the data set
};

struct LedgerStep {
  int64_t step = 0, epoch = 0;  // from 0
  uint64_t generation = 0;
  int world = 1;
  std::string ids;                    // datasets::DigestOfIds of the samples that the order gives the step
  datasets::SampleSum gathered = {};  // the samples that the members took
  double loss = 0;
  bool skipped = false;  // by loss scaling: its samples are consumed, but the weights did not change
};

inline constexpr char kLedgerFile[] = "ledger.jsonl";

/// Lines have no '\n'. `previous`: SHA-256 of the previous line, kLedgerStart for the first.
inline constexpr char kLedgerStart[] = "0000000000000000000000000000000000000000000000000000000000000000";
std::string ToLine(const LedgerHead& head, std::string_view previous);
std::string ToLine(const LedgerStep& step, std::string_view previous);
/// Returns a line: `generation` continues from step `step` of generation `of`. Steps from `step` on, and
/// steps of generations between them, are taken back.
/// `of`: 0 if it is unknown; it then stands in the line only if `step` is 0.
std::string RewindLine(int64_t step, uint64_t generation, uint64_t of, std::string_view previous);

/// End of a ledger.
struct LedgerEnd {
  uint64_t generation = 0;  // highest in the ledger
  int64_t next_step = 0;    // after the last step that counts
  bool operator==(const LedgerEnd&) const = default;
};
/// Returns the end of the ledger at `path`, all zeros if there is none.
absl::StatusOr<LedgerEnd> EndOfLedger(const std::string& path);

/// State of a run when a writer opens its ledger.
struct LedgerBegin {
  int64_t steps = 0;       // finished
  uint64_t of = 0;         // generation of the last of them; 0: no steps
  int64_t remembered = 0;  // the writer has records of the steps from this number on, at most `steps`
  Lineage lineage = {};    // of the state
};
/// How a writer continues a ledger.
struct LedgerContinuation {
  bool rewinds = false;       // with a line "rewind" first
  int64_t rewinds_to = 0;     // its step
  uint64_t of = 0;            // the generation that it names; 0: unknown, or there are no steps
  int64_t appended_from = 0;  // it appends its records of the steps from this number on
};
/// Returns how `generation` continues at `begin` a ledger that ends at `end`. The line "rewind" says from
/// which step of which generation it continues. It is omitted if the state has passed through the end of the
/// file, and if no branch in another node's folder can have a number between the two generations. If the file
/// ends on another branch, it may lack steps of the state's, so the writer's records are appended again.
/// A writer that opens its file within the state's own generation, for example to save before it leaves, says
/// where that generation began.
LedgerContinuation ContinueLedger(const LedgerEnd& end, const LedgerBegin& begin, uint64_t generation);

/// Returns the run of the ledger at `path`, or nullopt if there is none.
absl::StatusOr<std::optional<uint64_t>> RunOfLedger(const std::string& path);

class Ledger {
 public:
  /// Continues a file or starts it with `head`. If a writer died in the middle of a line, that line gets a
  /// newline and stays: the verifier reports it. kFailedPrecondition: the file belongs to another run.
  static absl::StatusOr<Ledger> Open(const std::string& path, const LedgerHead& head);
  Ledger(Ledger&&) = default;

  /// Appends a step with one write(2) with O_APPEND, unless another writer has added it in the same
  /// generation. kResourceExhausted: the disk is full. Part of the line may be in the file, and the next
  /// Flush, Append or Begin writes the rest.
  absl::Status Append(const LedgerStep& step);
  /// Starts `generation` at `begin` and appends what ContinueLedger requires. The caller appends its records
  /// of the steps from next_step() on.
  absl::Status Begin(const LedgerBegin& begin, uint64_t generation);
  /// Appends to the highest generation of the lines before: the checkpoint of `steps` finished steps has
  /// weights with this SHA-256.
  absl::Status AppendCheckpoint(int64_t steps, std::string_view weights);
  /// Writes what a full disk has kept out so far.
  absl::Status Flush();
  /// Returns whether the file is in its place and ends with this writer's last line. If not, a writer of a
  /// later generation may have continued it, or another run moved it aside.
  bool IsLast() const;
  /// Returns whether a writer of a later generation has continued it, or another run moved it aside.
  bool IsSuperseded() const;
  /// Returns the number of steps in the file: one more than the last applied line's step, after rewinds.
  int64_t next_step() const { return next_step_; }
  LedgerEnd end() const { return {.generation = generation_, .next_step = next_step_}; }

 private:
  Ledger(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  /// Adds a line whose `prev` is previous_, and writes all that is pending.
  absl::Status Write(const std::string& line);
  absl::Status WritePending();
  /// Continues the chain after lines that another writer has added since: one of an earlier generation that
  /// did not know that it was over, or one that took over while this one waited for the disk. Pending lines
  /// that are in the file by now are dropped.
  void FollowOthers();

  std::string path_;
  UniqueFd file_;
  std::string previous_ = kLedgerStart;
  uint64_t generation_ = 0;          // highest generation of a line
  std::deque<std::string> pending_;  // lines that are not yet, or not wholly, in the file
  bool ends_line_ = false;           // a newline comes first: the file ends within another writer's line
  size_t begun_ = 0;                 // bytes of what is pending that are in the file
  LedgerEnd others_;                 // end of the file after the newest lines of others that were followed
  bool others_are_last_ = false;     // nothing of this writer is after them
  int64_t next_step_ = 0;
  int64_t end_ = 0;  // size of the file after the last write
};

}  // namespace mtrun::checkpoints

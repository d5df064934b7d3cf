// ledger.jsonl: which samples each step consumed, in which generation; the proof of "exactly once"
// (docs/formats.md, "The ledger"; tools/verify_ledger reads it). Each line carries the digest of the line
// before, so nothing can be lost from the middle unseen. The steps that count are those on the lineage of the
// highest generation, wherever their lines are. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/posix.h"
#include "datasets/sample_sum.h"
#include "datasets/sampler.h"
#include "trainers/checkpoints/lineage.h"

namespace mtrun::checkpoints {

/// First line of a file: what the sample ids are a function of.
struct LedgerHead {
  uint64_t run = 0;
  uint64_t seed = 0;
  int64_t size = 0;  // samples of an epoch
  int64_t global_batch = 1, micro_batch = 1;
  datasets::Shuffle shuffle = datasets::Shuffle::kFull;
  datasets::StreamShards shards = {};  // named where the order is streamed
  std::string data;                    // digest of the data set
};

struct LedgerStep {
  int64_t step = 0, epoch = 0;  // from 0
  uint64_t generation = 0;
  int world = 1;
  std::string ids;                    // datasets::DigestOfIds of the step's samples, as the order has them
  datasets::SampleSum gathered = {};  // what the members really took for it
  double loss = 0;
  bool skipped = false;  // by loss scaling: its samples are consumed, the weights did not move
};

inline constexpr char kLedgerFile[] = "ledger.jsonl";

/// Lines without '\n'. `previous`: SHA-256 of the line before, kLedgerStart for the first.
inline constexpr char kLedgerStart[] = "0000000000000000000000000000000000000000000000000000000000000000";
std::string ToLine(const LedgerHead& head, std::string_view previous);
std::string ToLine(const LedgerStep& step, std::string_view previous);
/// `generation` continues from step `step` of generation `of`: steps from `step` on, and what generations
/// between them did, are taken back.
std::string RewindLine(int64_t step, uint64_t generation, uint64_t of, std::string_view previous);
/// The checkpoint of `steps` finished steps has weights with this SHA-256.
std::string CheckpointLine(int64_t steps, uint64_t generation, std::string_view weights,
                           std::string_view previous);

/// The highest generation in the ledger at `path`; 0 where there is none.
absl::StatusOr<uint64_t> HighestGeneration(const std::string& path);
/// How far a ledger is.
struct LedgerEnd {
  uint64_t generation = 0;  // the highest
  int64_t next_step = 0;    // behind the last one that counts
  bool operator==(const LedgerEnd&) const = default;
};
/// Of the ledger at `path`; all zeros where there is none.
absl::StatusOr<LedgerEnd> EndOfLedger(const std::string& path);

/// Where a run stands when a writer opens its ledger.
struct LedgerBegin {
  int64_t steps = 0;       // finished
  uint64_t of = 0;         // the generation that made the last of them; 0: none was made
  int64_t remembered = 0;  // the writer knows the records of the steps from this number on, at most `steps`
  Lineage lineage = {};    // of the state
};
/// How a writer continues a ledger.
struct LedgerContinuation {
  bool rewinds = false;       // with a line "rewind" first
  int64_t appended_from = 0;  // it appends the steps that it remembers from this number on
};
/// `generation` begins at `begin` in a ledger that ends at `end`. The line "rewind" says from which step of
/// which generation it continues, unless that is plain: the state has passed through the end of the file, and
/// no number between the two generations could be that of a branch in another node's folder. If the file ends
/// on another branch it may lack steps of the state's, so those that are remembered are appended again.
LedgerContinuation ContinueLedger(const LedgerEnd& end, const LedgerBegin& begin, uint64_t generation);

/// The run that the ledger at `path` is of; nothing where there is none.
absl::StatusOr<std::optional<uint64_t>> RunOfLedger(const std::string& path);

class Ledger {
 public:
  /// Continues a file or starts it with `head`. What a dying writer left of a line is ended by a newline and
  /// stays: the verifier reports it. kFailedPrecondition: the file belongs to another run.
  static absl::StatusOr<Ledger> Open(const std::string& path, const LedgerHead& head);
  Ledger(Ledger&&) = default;

  /// One write(2) with O_APPEND each, none for a step that another writer has added in the same generation.
  /// kResourceExhausted: the disk is full, and the line, which may be in the
  /// file in part, is written by the next Flush, Append or Begin.
  absl::Status Append(const LedgerStep& step);
  /// `generation` begins at `begin`: appends what ContinueLedger asks for. The caller appends the steps from
  /// next_step() on that it remembers.
  absl::Status Begin(const LedgerBegin& begin, uint64_t generation);
  /// In the highest generation of the lines before.
  absl::Status AppendCheckpoint(int64_t steps, std::string_view weights);
  /// What a full disk has kept out so far.
  absl::Status Flush();
  /// Whether the file is in its place and ends with what has been written here: another writer of a later
  /// generation may have continued it, and the chain goes over its lines, or another run moved it aside.
  bool IsLast() const;
  /// Whether a later generation than this writer's has continued it, or another run moved it aside.
  bool IsSuperseded() const;
  /// Steps that the file accounts for: one more than the last applied line's step, after rewinds.
  int64_t next_step() const { return next_step_; }
  LedgerEnd end() const { return {.generation = generation_, .next_step = next_step_}; }

 private:
  Ledger(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status Write(const std::string& line);
  /// A writer of an earlier generation that did not know that it was over may have added lines since this one
  /// looked: the chain goes over them. Where the file ends then; nothing where it has no more than is known.
  std::optional<LedgerEnd> FollowOthers();

  std::string path_;
  UniqueFd file_;
  std::string previous_ = kLedgerStart;
  uint64_t generation_ = 0;  // the highest of a line
  std::string pending_;      // not in the file yet
  int64_t next_step_ = 0;
  int64_t end_ = 0;  // bytes of the file behind the last write
};

}  // namespace mtrun::checkpoints

// Writes a checkpoint so that it is there whole or not at all, and finds the newest whole one again.
//
// The order of a save (every file fsynced by itself): model, optimizer, state, then DONE with their digests,
// then the folder's entries, then the rename from its partial name, then the run folder's entries. So a
// machine that stops at any moment leaves a folder that has its final name and is intact, or one that has a
// partial name, or (where a disk lies about fsync) one whose digests do not match.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "datasets/safetensors.h"
#include "trainers/checkpoints/files.h"
#include "trainers/checkpoints/position.h"
#include "trainers/checkpoints/run_state.h"

namespace mtrun::checkpoints {

/// Named tensors in host memory: `bytes[i]` belongs to `infos[i]`, row-major.
struct TensorFile {
  std::vector<datasets::TensorInfo> infos;
  std::vector<absl::Span<const uint8_t>> bytes;
  std::map<std::string, std::string> metadata = {};
};

/// Everything that a run continues with, as of `step` finished steps.
struct Snapshot {
  int64_t step = 0;
  TensorFile model, optimizer;
  std::string state;  // state.json
  std::function<absl::Status()> arrived =
      nullptr;                                  // waits until the tensors' bytes are there; null: they are
  std::shared_ptr<const void> owner = nullptr;  // of what the spans point to
  std::function<absl::Status()> may_commit =
      nullptr;  // asked before the checkpoint gets its final name, an error: it does not; null: it may

  int64_t TensorBytes() const;
};

/// Writes `root`/step_N. `unique` tells its partial name from those of other writers. A complete and intact
/// step_N that exists already is left as it is (OK), unless an earlier generation made it: then the run has
/// continued from before it, so it becomes a branch, branch_G_step_N (G: its generation), and this one takes
/// its name, in one exchange if the file system can. A damaged one is moved aside to
/// .step_N.damaged-<unique>. On an error the partial folder is removed as far as the disk allows.
/// kResourceExhausted: not enough room, found before the first byte.
absl::Status WriteCheckpoint(Files& files, const std::string& root, const Snapshot& snapshot,
                             std::string_view unique);

/// SHA-256 of the weights' file of `root`/step_N, as its DONE has it.
absl::StatusOr<std::string> DigestOfWeights(Files& files, const std::string& root, int64_t step);

/// A checkpoint whose every byte has been compared with DONE.
struct Checkpoint {
  int64_t step = 0;
  std::string path;
  std::string model, optimizer, state;  // the files
};
/// kDataLoss and kInvalidArgument (damaged), kNotFound (no DONE), or why the disk refuses to read it.
absl::StatusOr<Checkpoint> ReadCheckpoint(Files& files, const std::string& path, int64_t step);

/// Complete (with DONE, digests not verified) steps in `root`, ascending.
absl::StatusOr<std::vector<int64_t>> CompleteSteps(Files& files, const std::string& root);
/// Their runs and positions according to their state.json; run and generation 0 if that cannot be read.
absl::StatusOr<std::vector<SavedPosition>> CompletePositions(Files& files, const std::string& root);
/// What the text of a state.json says; nothing where it cannot be read.
std::optional<Position> PositionOf(const std::string& state);

/// What state.json of the newest complete step in `root` says, with none of its tensors read; nothing without
/// one.
std::optional<std::string> StateOfNewest(Files& files, const std::string& root);

struct Search {
  std::optional<Checkpoint> newest;
  std::vector<std::string> passed_over;  // "step_80: damaged: model.safetensors ..."; newer than `newest`
};
/// Reads from the highest position down until one is intact; those whose position cannot be read are tried
/// first. With `above` only those beyond that position, of which the position must be readable. Errors when
/// `root` cannot be listed, or none is intact and one of them may be: the disk refuses to read it, and who
/// began again would move it away.
absl::StatusOr<Search> FindNewest(Files& files, const std::string& root,
                                  const std::optional<Position>& above = std::nullopt);

/// Removes what killed saves left. A failure is returned, and nothing else depends on it.
absl::Status RemovePartialFolders(Files& files, const std::string& root,
                                  const std::function<bool(const std::string& name)>& aborted);
/// Removes the steps that StepsToRemove names, now that `step` is on the disk. Only ancestors of its state
/// `saved` are removed; other complete steps that would go become branches. Without `saved` all count as
/// ancestors.
absl::Status RemoveOldSteps(Files& files, const std::string& root, int64_t step,
                            const std::optional<RunState>& saved, int keep_last, std::optional<int64_t> best);

}  // namespace mtrun::checkpoints

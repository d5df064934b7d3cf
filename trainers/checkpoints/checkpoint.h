// Writes checkpoints atomically, and finds the newest whole one.
//
// A save writes in this order (every file is fsynced by itself): model, optimizer, state, DONE with their
// digests, the folder's entries, the rename from its partial name, the run folder's entries. If the machine
// stops at any moment, the folder has its final name and is intact, or has a partial name. If a disk lies
// about fsync, it can also have digests that do not match.
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
#include "datasets/packed/safetensors.h"
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

/// Everything that a run continues with after `step` finished steps.
struct Snapshot {
  int64_t step = 0;
  TensorFile model, optimizer;
  std::string state;  // state.json
  std::function<absl::Status()> arrived =
      nullptr;  // blocks until the tensors' bytes have arrived; null: they have
  std::shared_ptr<const void> owner = nullptr;  // of the memory that the spans point to
  std::function<absl::Status()> may_commit =
      nullptr;  // called before the checkpoint gets its final name, which an error prevents; null: allowed

  int64_t TensorBytes() const;
};

/// Writes `root`/step_N. `unique` makes its partial name different from other writers'. If a complete and
/// intact step_N exists, it is kept (OK), unless an earlier generation made it. In that case the run has
/// continued from before it, so it becomes a branch, branch_G_step_N (G: its generation), and the new
/// checkpoint takes its name, in one exchange if the file system can. A damaged one is renamed to
/// .step_N.damaged-<unique>. After an error the partial folder is removed as far as the disk allows.
/// kResourceExhausted: not enough disk space, detected before the first byte.
absl::Status WriteCheckpoint(Files& files, const std::string& root, const Snapshot& snapshot,
                             std::string_view unique);

/// Returns the SHA-256 of the weights file of `root`/step_N, from its DONE.
absl::StatusOr<std::string> DigestOfWeights(Files& files, const std::string& root, int64_t step);

/// A checkpoint whose bytes have all been compared with DONE.
struct Checkpoint {
  int64_t step = 0;
  std::string path;
  std::string model, optimizer, state;  // contents of the files
};
/// Returns kDataLoss or kInvalidArgument if damaged, kNotFound without DONE, or the disk's read error.
absl::StatusOr<Checkpoint> ReadCheckpoint(Files& files, const std::string& path, int64_t step);

/// Returns the complete steps in `root` (with DONE, digests not verified), ascending.
absl::StatusOr<std::vector<int64_t>> CompleteSteps(Files& files, const std::string& root);
/// Returns their runs and positions from state.json, or run and generation 0 if that cannot be read.
absl::StatusOr<std::vector<SavedPosition>> CompletePositions(Files& files, const std::string& root);
/// Returns state.json of the newest complete step in `root`, or nullopt if there is none or it cannot be read.
/// Reads no tensors.
std::optional<RunState> StateOfNewest(Files& files, const std::string& root);

struct Search {
  std::optional<Checkpoint> newest;
  std::vector<std::string> passed_over;  // "step_80: damaged: model.safetensors ..."; newer than `newest`
};
/// Reads from the highest position down until one is intact. Those whose position cannot be read are tried
/// first. With `above`, only those with a readable position beyond it are tried. Returns an error if `root`
/// cannot be listed, or if none is intact and the disk refuses to read one of them. It may be intact, and a
/// run that started over would move it away.
absl::StatusOr<Search> FindNewest(Files& files, const std::string& root,
                                  const std::optional<Position>& above = std::nullopt);

/// Removes folders that killed saves left. An error is returned, but nothing else depends on it.
absl::Status RemovePartialFolders(Files& files, const std::string& root,
                                  const std::function<bool(const std::string& name)>& aborted);
/// Removes the steps that StepsToRemove names, after `step` has been saved. Only ancestors of its state
/// `saved` are removed. Other complete steps become branches instead, and those whose position cannot be read
/// stay. If `saved` is not given, all count as ancestors.
absl::Status RemoveOldSteps(Files& files, const std::string& root, int64_t step,
                            const std::optional<RunState>& saved, int keep_last, std::optional<int64_t> best);

}  // namespace mtrun::checkpoints

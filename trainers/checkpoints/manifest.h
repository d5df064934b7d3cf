// Names inside a run folder and the text of DONE, the file that makes a checkpoint one (docs/formats.md,
// "Checkpoints"). Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainers/checkpoints/position.h"

namespace mtrun::checkpoints {

inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kStateFile[] = "state.json";
inline constexpr char kDoneFile[] = "DONE";

/// "step_1200".
std::string StepFolder(int64_t step);
/// 1200 of "step_1200"; nothing for any other name, leading zeros included.
std::optional<int64_t> ParseStepFolder(std::string_view name);
/// ".step_1200.partial-<unique>": where a checkpoint is written before it appears.
std::string PartialFolder(int64_t step, std::string_view unique);
bool IsPartialFolder(std::string_view name);
/// "branch_2_step_350": a checkpoint of `position` from which the run did not continue. With `number` > 1
/// "branch_2_step_350.2", if the name is taken.
std::string BranchFolder(const Position& position, int number);
bool IsBranchFolder(std::string_view name);

/// What DONE says of each file: a checkpoint is intact when all of it is true.
struct FileRecord {
  int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
  bool operator==(const FileRecord&) const = default;
};
using Manifest = std::map<std::string, FileRecord>;

/// {"format": "mtrun-checkpoint", "version": 1, "files": {name: {"bytes": n, "sha256": "..."}}}
std::string EncodeManifest(const Manifest& manifest);
/// kInvalidArgument says what is wrong; another version is kFailedPrecondition.
absl::StatusOr<Manifest> DecodeManifest(std::string_view text);

/// Which complete checkpoints to remove now that `saved` is on the disk: of the steps until it all but the
/// newest `keep_last` (at least 1 is kept) and `best`. Whatever is further is not this run's newest: it was
/// passed over, being damaged, or is another writer's.
std::vector<int64_t> StepsToRemove(std::vector<int64_t> complete, int64_t saved, int keep_last,
                                   std::optional<int64_t> best);

}  // namespace mtrun::checkpoints

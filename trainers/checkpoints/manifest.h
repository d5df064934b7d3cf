// Names inside a run folder, and the text of DONE, the file that completes a checkpoint (docs/formats.md,
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

/// Returns "step_1200".
std::string StepFolder(int64_t step);
/// Returns 1200 for "step_1200", and nullopt for any other name, such as one with leading zeros.
std::optional<int64_t> ParseStepFolder(std::string_view name);
/// Returns ".step_1200.partial-<unique>", in which a checkpoint is written before it gets its final name.
std::string PartialFolder(int64_t step, std::string_view unique);
bool IsPartialFolder(std::string_view name);
/// Returns "branch_2_step_350" for a checkpoint of `position` from which the run did not continue. If the
/// name is taken, `number` > 1 gives "branch_2_step_350.2".
std::string BranchFolder(const Position& position, int number);
bool IsBranchFolder(std::string_view name);

/// Record of a file in DONE. A checkpoint is intact if all its records are true.
struct FileRecord {
  int64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
  bool operator==(const FileRecord&) const = default;
};
using Manifest = std::map<std::string, FileRecord>;

/// Returns {"format": "mtrun-checkpoint", "version": 1, "files": {name: {"bytes": n, "sha256": "..."}}}.
std::string EncodeManifest(const Manifest& manifest);
/// Returns kInvalidArgument with the reason, or kFailedPrecondition for another version.
absl::StatusOr<Manifest> DecodeManifest(std::string_view text);

/// Returns the complete checkpoints to remove after `saved` has been written: all steps up to it but the
/// newest `keep_last` (at least 1) and `best`. Later ones were passed over as damaged or are another
/// writer's.
std::vector<int64_t> StepsToRemove(std::vector<int64_t> complete, int64_t saved, int keep_last,
                                   std::optional<int64_t> best);

}  // namespace mtrun::checkpoints

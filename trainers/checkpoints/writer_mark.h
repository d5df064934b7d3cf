// The file `.keeper` in a run folder, by which the members of a job detect shared folders. The member that
// writes the run's files writes it too. If a member does not read the same mark, its folder is not shared.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace mtrun::checkpoints {

/// Mark of a run's generation. No other membership of the run has it.
struct WriterMark {
  uint64_t run = 0, generation = 0;
};

absl::Status WriteWriterMark(const std::string& folder, const WriterMark& mark);
/// Records in `folder` that several nodes work on its run, so that other disks can hold steps that it lacks.
/// Python's Replica makes the same file, `.several_nodes`.
absl::Status MarkSeveralNodes(const std::string& folder);
/// Also returns true if the folder only has a writer's mark, as in earlier releases.
bool IsOfSeveralNodes(const std::string& folder);
/// Returns false if the folder has another mark, or if it has none or an unreadable one.
bool HasWriterMark(const std::string& folder, const WriterMark& mark);

}  // namespace mtrun::checkpoints

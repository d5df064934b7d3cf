// The file `.keeper` in a run folder, by which the members of a job find out who shares a folder: the member
// that writes the run's files writes it too, and who does not read the same in its own has a folder of its
// own.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace mtrun::checkpoints {

/// Of a run's generation, which no other membership of that run has.
struct WriterMark {
  uint64_t run = 0, generation = 0;
};

absl::Status WriteWriterMark(const std::string& folder, const WriterMark& mark);
/// Notes in `folder` that several nodes work on its run: other disks may then hold steps that it does not
/// tell of. Python's Replica makes the same file, `.several_nodes`.
absl::Status MarkSeveralNodes(const std::string& folder);
/// A writer's mark, which earlier releases made alone, says so too.
bool IsOfSeveralNodes(const std::string& folder);
/// False also where there is no mark, or none that can be read.
bool HasWriterMark(const std::string& folder, const WriterMark& mark);

}  // namespace mtrun::checkpoints

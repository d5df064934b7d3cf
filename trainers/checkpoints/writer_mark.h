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
/// Whether `folder` has such a mark, of whatever run and generation: several nodes have worked on the run in
/// it.
bool HasAnyWriterMark(const std::string& folder);
/// False also where there is no mark, or none that can be read.
bool HasWriterMark(const std::string& folder, const WriterMark& mark);

}  // namespace mtrun::checkpoints

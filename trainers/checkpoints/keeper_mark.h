// The file `.keeper` in a run folder, by which the members of a job find out who shares a folder: the keeper
// of the run's files writes it, and who does not read the same in its own has a folder of its own.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace mtrun::checkpoints {

/// Of a run's generation, which no other membership of that run has.
struct KeeperMark {
  uint64_t run = 0, generation = 0;
};

absl::Status WriteKeeperMark(const std::string& folder, const KeeperMark& mark);
/// False also where there is no mark, or none that can be read.
bool HasKeeperMark(const std::string& folder, const KeeperMark& mark);

}  // namespace mtrun::checkpoints

// A task's connection to the process manager over PMI2: one question after the other, all before one
// deadline. Not thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/posix.h"
#include "launcher/pmi/message.h"

namespace mtrun::launcher {

class PmiClient {
 public:
  /// `socket`: connected to the process manager, $PMI_FD. `job`, `rank`: $PMI_JOBID and $PMI_RANK.
  PmiClient(UniqueFd socket, std::string job, int rank, TimePoint deadline);

  // Each of these: kUnavailable when nobody answers or the connection ends, kDeadlineExceeded when no answer
  // came in time, kInvalidArgument for an answer that is none, kInternal for one that refuses. No message
  // tells a value.

  /// Comes first. The other end learns that this task speaks PMI2, and who it is.
  absl::Status Begin();
  /// A value that others see after the next Fence.
  absl::Status Put(const std::string& key, const std::string& value);
  /// Waits until all tasks of the step are here.
  absl::Status Fence();
  /// kNotFound too, where nobody has put it.
  absl::StatusOr<std::string> Get(const std::string& key);
  /// Comes last: Slurm ends a step of which a task goes without.
  absl::Status End();

 private:
  absl::Status Send(std::string_view bytes);
  /// More bytes of an answer to `question`.
  absl::StatusOr<std::string> Receive(const std::string& question);
  absl::StatusOr<PmiMessage> Ask(const PmiMessage& question);

  const UniqueFd socket_;
  const std::string job_;
  const int rank_;
  const TimePoint deadline_;
  PmiParser answers_;
};

}  // namespace mtrun::launcher

// A task's PMI2 connection to the process manager: sequential requests, one deadline. Not thread-safe.
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

  // All of these return kUnavailable if the peer does not read or closes the connection, kDeadlineExceeded if
  // no answer arrives in time, kInvalidArgument for a malformed answer, kInternal for a refusal. No message
  // contains a value.

  /// Must be first. Announces to the manager that this task uses PMI2, and its rank.
  absl::Status Begin();
  /// Stores a value that others can read after the next Fence.
  absl::Status Put(const std::string& key, const std::string& value);
  /// Blocks until all tasks of the step have called it.
  absl::Status Fence();
  /// Also kNotFound if no task has stored the key.
  absl::StatusOr<std::string> Get(const std::string& key);
  /// Must be last: Slurm ends a step if one of its tasks exits without it.
  absl::Status End();

 private:
  absl::Status Send(std::string_view bytes);
  /// Reads more bytes of the answer to `question`.
  absl::StatusOr<std::string> Receive(const std::string& question);
  absl::StatusOr<PmiMessage> Ask(const PmiMessage& question);

  const UniqueFd socket_;
  const std::string job_;
  const int rank_;
  const TimePoint deadline_;
  PmiParser answers_;
};

}  // namespace mtrun::launcher

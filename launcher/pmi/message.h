// Messages of PMI2, the protocol between a task of a parallel job and the process manager that started it:
// the body's length in six characters, then "cmd=NAME;key=value;". Follows MPICH's "PMI v2 Wire Protocol"
// (wiki.mpich.org) and Slurm's plugin mpi/pmi2. Pure; not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

struct PmiMessage {
  std::string command;
  std::vector<std::pair<std::string, std::string>> fields = {};

  /// Returns the value of the first field with that name, "" for none.
  std::string_view Field(std::string_view name) const;
  bool operator==(const PmiMessage&) const = default;
};

/// REQUIRES: no ';' anywhere and no '=' in a name, because Slurm does not accept them quoted.
std::string Encode(const PmiMessage& message);

class PmiParser {
 public:
  /// Far more than any answer has.
  static constexpr size_t kMaxBytes = 64 << 10;

  void Append(std::string_view bytes) { bytes_ += bytes; }
  /// Returns the next complete message; nullopt if more bytes are needed. kInvalidArgument for a malformed
  /// one, without its text, which may contain a secret. The connection is unusable then.
  absl::StatusOr<std::optional<PmiMessage>> Next();

 private:
  std::string bytes_;
};

}  // namespace mtrun::launcher

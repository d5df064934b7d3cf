// Messages of PMI2, in which a task of a parallel job talks with the process manager that started it: six
// characters with the length of what follows, then "cmd=NAME;key=value;". As MPICH's "PMI v2 Wire Protocol"
// has it (wiki.mpich.org) and Slurm's plugin mpi/pmi2 speaks it. Pure; not thread-safe.
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

  /// The value of the first field of that name, "" for none.
  std::string_view Field(std::string_view name) const;
  bool operator==(const PmiMessage&) const = default;
};

/// REQUIRES: no ';' anywhere and no '=' in a name: Slurm takes neither quoted.
std::string Encode(const PmiMessage& message);

class PmiParser {
 public:
  /// Far more than any answer has.
  static constexpr size_t kMostBytes = 64 << 10;

  void Append(std::string_view bytes) { bytes_ += bytes; }
  /// The next whole message, nothing when more bytes are needed. kInvalidArgument for what is none, without
  /// the text: it may hold a secret. The connection is of no more use then.
  absl::StatusOr<std::optional<PmiMessage>> Next();

 private:
  std::string bytes_;
};

}  // namespace mtrun::launcher

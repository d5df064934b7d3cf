// flight_<rank>.jsonl in the run folder: the last actions of a worker, written if its membership or its run
// fails (docs/formats.md, "Flight records").
#pragma once

#include <cstdint>
#include <string>

namespace mtrun::trainers {

struct FlightHead {
  int rank = 0, world = 1;
  uint64_t generation = 0;
  int64_t steps = 0;  // finished
  std::string why;    // reason of the failure
};

/// Writes the file in place of an earlier one of that rank. Errors are only logged, to not hide the failure.
void WriteFlight(const std::string& model_folder, const FlightHead& head);

}  // namespace mtrun::trainers

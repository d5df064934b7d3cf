// flight_<rank>.jsonl in the run folder: what a worker did last, written when its membership or its run fails
// (docs/formats.md, "Flight records").
#pragma once

#include <cstdint>
#include <string>

namespace mtrun::trainers {

struct FlightHead {
  int rank = 0, world = 1;
  uint64_t generation = 0;
  int64_t steps = 0;  // finished
  std::string why;    // it failed
};

/// In place of an earlier one of that rank. What goes wrong is logged: it must not hide the failure.
void WriteFlight(const std::string& model_folder, const FlightHead& head);

}  // namespace mtrun::trainers

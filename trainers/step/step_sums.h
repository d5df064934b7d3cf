// What the workers tell each other of a step beside the gradients, each of its own part: integers and
// float64, through no reduction of gradients, which rounds. Everybody has everybody's and adds them up in the
// order of ranks, so the sum is the same everywhere, to the last bit. Free of LibTorch; values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/sample_sum.h"

namespace mtrun::trainers {

/// What a member wants to do after a step; all of them learn how many do.
struct StepVotes {
  bool leave = false;
  bool regroup = false;
};

/// Where a worker's time went in a step, in seconds. With a GPU as its host sees it: what the device computes
/// is in `wait`, because that is when the host waits for it.
struct StepTimes {
  double compute = 0;  // own passes and the update
  double wait = 0;     // for the sums: for other workers, and for the network
  double data = 0;     // for batches
  bool operator==(const StepTimes&) const = default;
  double busy() const { return compute + data; }
  double total() const { return compute + wait + data; }
  StepTimes& operator+=(const StepTimes& other);
};

struct StepSums {
  double loss = 0;      // weighted: the sum over the workers is the mean over the step's samples
  int64_t correct = 0;  // right predictions
  int64_t leaving = 0, regrouping = 0;  // workers that vote so
  int64_t overflowed = 0;               // workers that found sums which are not finite
  datasets::SampleSum gathered = {};    // that were taken for batches
  StepTimes last = {};                  // of the step before this one; each worker's own, not summed
  bool operator==(const StepSums&) const = default;

  void Vote(StepVotes votes) {
    leaving = votes.leave ? 1 : 0;
    regrouping = votes.regroup ? 1 : 0;
  }
  StepSums& operator+=(const StepSums& other);
};

/// Workers of one version talk to each other: the bytes of the fields in their order.
std::string Encode(const StepSums& record);
/// REQUIRES: what Encode made.
StepSums DecodeStepSums(std::string_view bytes);
/// Of all workers, by rank.
StepSums SumOf(const std::vector<std::string>& encoded);
std::vector<StepTimes> LastTimes(const std::vector<std::string>& encoded);

}  // namespace mtrun::trainers

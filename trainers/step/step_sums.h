// Records that the workers exchange in each step beside the gradients, each of its own part: integers and
// exact sums, not summed with gradients, which are rounded. Every worker has all records and adds them up; no
// sum depends on the order, so it is the same everywhere and with any number of workers, to the last bit.
// Independent of LibTorch; values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/order/sample_sum.h"
#include "trainers/step/exact_sum.h"

namespace mtrun::trainers {

/// Requests of a member for the time after a step. All members learn how many there are.
struct StepVotes {
  bool leave = false;
  bool regroup = false;
};

/// Times of a worker in a step, in seconds. With a GPU they are measured on the host: computation on the
/// device is in `wait`, because the host waits for it then.
struct StepTimes {
  double compute = 0;  // own passes and the update
  double wait = 0;     // for the sums: for other workers and for the network
  double data = 0;     // for batches
  bool operator==(const StepTimes&) const = default;
  double busy() const { return compute + data; }
  double total() const { return compute + wait + data; }
  StepTimes& operator+=(const StepTimes& other);
};

struct StepSums {
  ExactSum loss = {};   // weighted: the sum over the workers is the mean over the step's samples
  int64_t correct = 0;  // right predictions
  int64_t leaving = 0, regrouping = 0;  // workers that vote for it
  int64_t overflowed = 0;               // workers that found non-finite sums
  datasets::SampleSum gathered = {};    // samples taken for batches
  StepTimes last = {};                  // of the previous step; each worker's own, not summed
  bool operator==(const StepSums&) const = default;

  void Vote(StepVotes votes) {
    leaving = votes.leave ? 1 : 0;
    regrouping = votes.regroup ? 1 : 0;
  }
  StepSums& operator+=(const StepSums& other);
};

/// Returns the bytes of the fields in their order, because all workers are of one version.
std::string Encode(const StepSums& record);
/// REQUIRES: `bytes` come from Encode.
StepSums DecodeStepSums(std::string_view bytes);
/// `encoded`: records of all workers, by rank.
StepSums SumOf(const std::vector<std::string>& encoded);
std::vector<StepTimes> LastTimes(const std::vector<std::string>& encoded);

}  // namespace mtrun::trainers

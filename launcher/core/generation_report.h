// This node's reports to the service about one generation: at most one failure, one break and one finish, and
// rank 0's step now and then. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/core/effect_list.h"
#include "launcher/core/worker_slots.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

class GenerationReport {
 public:
  /// Reporting interval of rank 0's steps.
  static constexpr int64_t kStepsPerReport = 100;

  explicit GenerationReport(const rendezvous::Generation& generation = {}) : generation_(generation) {}

  /// Reports that a worker has failed; the first failure counts.
  void Fail(const rendezvous::WorkerFailure& failure, EffectList* out);
  /// Reports, once, that the worker cannot continue in the generation although no process has failed.
  void Break(const WorkerSlot& worker, const std::string& why, EffectList* out);
  /// Reports that all workers are done. `safe`: their results are safe, whatever happens to their processes.
  void Finish(bool safe, EffectList* out);
  /// Reports that rank 0 has finished `step` steps: the first time, after kStepsPerReport more, or if the run
  /// went back.
  void Steps(int64_t step, EffectList* out);
  /// Repeats the failure and the finish for a service that may not know them.
  void Repeat(bool safe, EffectList* out) const;

  const std::optional<rendezvous::WorkerFailure>& failure() const { return failure_; }
  bool broken() const { return broken_; }

  std::string Describe() const;
  bool operator==(const GenerationReport&) const = default;

 private:
  rendezvous::Generation generation_;
  std::optional<rendezvous::WorkerFailure> failure_;
  bool broken_ = false, finished_ = false;
  std::optional<int64_t> steps_;
};

}  // namespace mtrun::launcher

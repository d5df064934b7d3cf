#include "launcher/core/generation_report.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

void GenerationReport::Fail(const rendezvous::WorkerFailure& failure, EffectList* out) {
  if (failure_) return;
  failure_ = failure;
  out->Send(rendezvous::WorkerFailed{generation_, failure});
}

void GenerationReport::Break(const WorkerSlot& worker, const std::string& why, EffectList* out) {
  if (std::exchange(broken_, true)) return;
  out->Send(rendezvous::CollectivesBroken{generation_, worker.rank, why, !worker.connected});
}

void GenerationReport::Finish(bool safe, EffectList* out) {
  if (!std::exchange(finished_, true)) out->Send(rendezvous::WorkersFinished{generation_, safe});
}

void GenerationReport::Steps(int64_t step, EffectList* out) {
  if (steps_ && step >= *steps_ && step < *steps_ + kStepsPerReport) return;
  steps_ = step;
  out->Send(rendezvous::StepsCommitted{generation_, step});
}

void GenerationReport::Repeat(bool safe, EffectList* out) const {
  if (failure_) out->Send(rendezvous::WorkerFailed{generation_, *failure_});
  if (finished_) out->Send(rendezvous::WorkersFinished{generation_, safe});
}

std::string GenerationReport::Describe() const {
  return absl::StrCat(failure_ ? rendezvous::Describe(*failure_) : "no failure", broken_ ? ", broken" : "",
                      finished_ ? ", finished" : "", steps_ ? absl::StrCat(", ", *steps_, " steps") : "");
}

}  // namespace mtrun::launcher

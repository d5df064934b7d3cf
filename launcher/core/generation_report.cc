#include "launcher/core/generation_report.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::launcher {

bool GenerationReport::AddFailure(const rendezvous::WorkerFailure& failure) {
  if (failure_) return false;
  failure_ = failure;
  return true;
}

bool GenerationReport::AddBreak() { return !std::exchange(broken_, true); }

bool GenerationReport::AddSteps(int64_t step) {
  if (steps_ && step >= *steps_ && step < *steps_ + kStepsPerReport) return false;
  steps_ = step;
  return true;
}

std::string GenerationReport::Describe() const {
  return absl::StrCat(failure_ ? rendezvous::Describe(*failure_) : "no failure", broken_ ? ", broken" : "",
                      steps_ ? absl::StrCat(", ", *steps_, " steps") : "");
}

}  // namespace mtrun::launcher

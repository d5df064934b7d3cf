#include "rendezvous/job/restart_budget.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/counted.h"

namespace mtrun::rendezvous {

std::string RestartBudget::UsedText() const { return RestartText(count_, refunded_, max_restarts_); }

void RestartBudget::Raise(int count, int refunded) {
  count_ = std::max(count_, count);
  if (refund_steps_ == 0) {  // this job gives no failure back, whatever an agent says
    count_ = std::min(count_, max_restarts_);
    return;
  }
  refunded_ = std::min(count_, std::max({refunded_, refunded, count_ - max_restarts_}));
}

WorkerDied RestartBudget::Died(WorkerFailure failure, bool counted_before) const {
  failure.message.clear();
  return {std::move(failure), count_, refunded_, max_restarts_, counted_before};
}

bool RestartBudget::ConcernsAll(const WorkerFailure& failure) const {
  const bool trainer = refund_steps_ > 0;
  return trainer && failure.signal == 0 && failure.exit_code == kDifferentStatesStatus;
}

std::string RestartBudget::Note(const WorkerFailure& failure) {
  early_failures_ = failure.early ? early_failures_ + 1 : 0;
  if (std::string why = WhyHopeless(failure); !why.empty()) return why;
  if (refund_steps_ > 0 && early_failures_ >= kMaxEarlyFailures)
    return absl::StrCat(early_failures_, " workers in a row exited during start-up");
  if (used() < max_restarts_) return "";
  if (max_restarts_ == 0) return "no restarts are allowed (max_restarts 0)";
  return absl::StrCat("the budget of ", Counted(max_restarts_, "restart"), " is used up");
}

// Occasional failures do not end a long job. A crash loop makes no steps, so it does.
std::vector<std::string> RestartBudget::OnSteps(int64_t step) {
  early_failures_ = 0;
  std::vector<std::string> texts;
  if (refund_steps_ == 0) return texts;
  // A run that went back to a checkpoint earns refunds only beyond the steps it had reached before.
  if (!refund_mark_ || used() == 0) refund_mark_ = std::max(step, refund_mark_.value_or(0));
  while (used() > 0 && step - *refund_mark_ >= refund_steps_) {
    ++refunded_;
    *refund_mark_ += refund_steps_;
    texts.push_back(absl::StrCat(refund_steps_, " steps without a failure: ", used(), " of ", max_restarts_,
                                 " restarts are used now"));
  }
  return texts;
}

std::string RestartBudget::Describe() const {
  std::string text = absl::StrCat("restarts ", used());
  if (refunded_ > 0) absl::StrAppend(&text, " + ", refunded_);
  if (early_failures_ > 0) absl::StrAppend(&text, ", early failures ", early_failures_);
  if (refund_mark_) absl::StrAppend(&text, ", refund mark ", *refund_mark_);
  return text;
}

}  // namespace mtrun::rendezvous

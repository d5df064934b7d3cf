#include "rendezvous/job/failure_streak.h"

#include <signal.h>

#include "absl/strings/str_cat.h"
#include "base/terminal.h"
#include "rendezvous/job/break_backoff.h"
#include "rendezvous/wire/error_text.h"
#include "rendezvous/wire/until.h"

namespace mtrun::rendezvous {
namespace {

constexpr size_t kMaxColumns = 200;

/// Returns whether an operator or the kernel ended the worker. Such a restart need not wait.
bool IsFromOutside(const WorkerFailure& failure) {
  return failure.signal == SIGKILL || failure.signal == SIGTERM;
}

}  // namespace

void FailureStreak::OnFailure(const WorkerFailure& failure, bool progressed, TimePoint now) {
  line_ = ClipColumns(std::string(ErrorLine(failure.message)), kMaxColumns);
  std::string kind = absl::StrCat(failure.exit_code, " ", failure.signal, " ", WithoutNumbers(line_));
  if (progressed) failures_ = equal_ = 0;
  equal_ = kind == kind_ ? equal_ + 1 : 1;
  kind_ = std::move(kind);
  failures_ = IsFromOutside(failure) ? 0 : failures_ + 1;
  pause_ends_ = now + BreakBackoff::PauseAfter(failures_);
}

std::optional<TimePoint> FailureStreak::PauseEnds(TimePoint now) const {
  return pause_ends_ && now < *pause_ends_ ? pause_ends_ : std::nullopt;
}

std::string FailureStreak::PauseText() const {
  return absl::StrCat("workers failed ", failures_, " times in a row; a short pause before the next restart");
}

void FailureStreak::Name(WorkerDied* died) const {
  if (equal_ != kNamedFrom) return;
  died->equal_failures = equal_;
  died->error = line_;
}

std::string FailureStreak::Summary(int all) const {
  if (equal_ < kNamedFrom) return "";
  return equal_ >= all ? absl::StrCat("all ", equal_, " failures were the same")
                       : absl::StrCat("the last ", equal_, " failures were the same");
}

std::string FailureStreak::Describe(TimePoint now) const {
  if (equal_ == 0) return "";
  return absl::StrCat("failures ", failures_, ", equal ", equal_, ", pause ends ", Until(pause_ends_, now));
}

}  // namespace mtrun::rendezvous

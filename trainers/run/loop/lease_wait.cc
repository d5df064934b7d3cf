#include "trainers/run/loop/lease_wait.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::trainers {
namespace {

/// A page of memory has no event to wait for. If all is well, its deadline advances every half second.
constexpr Duration kLookEvery = std::chrono::milliseconds(5);

/// Returns the error that aborts a step of the running membership; OK if there is none.
absl::Status EndOf(const Membership& membership) {
  MT_RETURN_IF_ERROR(collectives::GroupStatus(membership.group()));
  return membership.generation_is_over() ? absl::UnavailableError("this generation is over")
                                         : absl::OkStatus();
}

}  // namespace

absl::Status LeaseWait::AwaitOutside(std::string_view what) {
  outside_ = true;
  absl::Status status = Await(what);
  if (absl::IsAborted(status)) outside_ = false;
  return status;
}

bool LeaseWait::LeaseIsOver() const {
  return outside_ ? membership_.outside_lease_is_over() : membership_.lease_is_over();
}

absl::Status LeaseWait::MayCommit() const {
  return LeaseIsOver() ? absl::UnavailableError(View(kNoServiceAnswers)) : absl::OkStatus();
}

absl::Status LeaseWait::Await(std::string_view what) {
  while (true) {
    const LeaseHold::Decision decision = hold_.Next(what, LookAround(), MonotonicNow());
    if (!decision.news.empty()) Say(what, decision);
    if (decision.action == LeaseHold::Action::kCommit) return absl::OkStatus();
    if (decision.action == LeaseHold::Action::kGiveUp) return decision.why;
    std::this_thread::sleep_for(kLookEvery);
  }
}

LeaseHold::Look LeaseWait::LookAround() const {
  // Read the lease first: agents report the end of a generation before they extend its deadline.
  const bool outside = outside_;
  LeaseHold::Look look{.over = LeaseIsOver(), .leaves = outside || membership_.wants_drain()};
  if (!outside && (look.over || hold_.holds())) look.membership = EndOf(membership_);
  // The lease is not renewed any more, and the next generation waits for this worker.
  if (!outside && look.over && look.membership.ok() && membership_.wants_regroup())
    look.membership = absl::UnavailableError("the next generation has formed");
  // The signal to leave can arrive before this news, after which the lease is not renewed.
  if (outside && membership_.work_is_done()) look.membership = absl::UnavailableError("the job is done");
  if (outside && membership_.others_continue())
    look.membership = absl::UnavailableError("the job continues on other nodes");
  if (outside && membership_.next_is_here())
    look.membership = absl::AbortedError("a generation with this worker has formed");
  return look;
}

void LeaseWait::Say(std::string_view what, const LeaseHold::Decision& decision) {
  if (decision.action != LeaseHold::Action::kHold) return log::Info(decision.news);
  log::Warning(decision.news);
  // If lines stay, as in a file, the log is enough.
  if (progress_.terminal())
    progress_.Show(absl::StrCat("holding at ", View(what), ": no rendezvous service answers"));
}

}  // namespace mtrun::trainers

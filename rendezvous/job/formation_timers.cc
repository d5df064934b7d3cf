#include "rendezvous/job/formation_timers.h"

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/until.h"

namespace mtrun::rendezvous {

void FormationTimers::OnOffer(TimePoint now) {
  if (!join_ends_) join_ends_ = now + join_timeout_;
}

void FormationTimers::OnReady(size_t ready, TimePoint now) {
  if (ready < min_nodes_) {
    last_call_ends_.reset();
  } else if (!last_call_ends_) {
    last_call_ends_ = now + last_call_;
  }
}

void FormationTimers::OnNodes(size_t nodes, TimePoint now) {
  if (nodes >= min_nodes_ || min_nodes_timeout_ == Duration::zero()) return hold_ends_.reset();
  if (!hold_ends_) hold_ends_ = now + min_nodes_timeout_;
}

void FormationTimers::Stop() {
  form_at_.reset();
  hold_ends_.reset();
}

std::optional<TimePoint> FormationTimers::NextDeadline(bool first) const {
  return Earlier(Earlier(form_at_, hold_ends_), first ? join_ends_ : std::nullopt);
}

std::string FormationTimers::Describe(bool first, TimePoint now) const {
  return absl::StrCat("last call ", first ? Until(last_call_ends_, now) : "-", ", form at ",
                      Until(form_at_, now), ", join ends ", first ? Until(join_ends_, now) : "-",
                      hold_ends_ ? absl::StrCat(", hold ends ", Until(hold_ends_, now)) : "");
}

}  // namespace mtrun::rendezvous

#include "trainers/membership/lease_hold.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/string_view.h"

namespace mtrun::trainers {

LeaseHold::Decision LeaseHold::GiveUp(const absl::Status& why) {
  since_.reset();
  return {.action = Action::kGiveUp, .why = why};
}

LeaseHold::Decision LeaseHold::Next(std::string_view what, const Look& look, TimePoint now) {
  if (look.leaves && !told_to_go_) told_to_go_ = now;
  if (!look.over && !holds()) return {};
  // Checked first: a worker that held while its generation ended must not commit, whatever its lease is now.
  if (!look.membership.ok()) return GiveUp(look.membership);
  if (!look.over) {
    const Duration held = now - *std::exchange(since_, std::nullopt);
    return {.news = absl::StrCat("a rendezvous service answers again: the run continues after ",
                                 HumanDuration(held))};
  }
  if (told_to_go_ && now - *told_to_go_ >= patience_) {
    return GiveUp(absl::UnavailableError(absl::StrCat(
        View(kNoServiceAnswers), ", and this worker has to leave: ", View(what), " is given up")));
  }
  if (holds()) return {.action = Action::kHold};
  since_ = now;
  return {.action = Action::kHold,
          .news = absl::StrCat(View(kNoServiceAnswers), "; holding at ", View(what), " until one does")};
}

}  // namespace mtrun::trainers

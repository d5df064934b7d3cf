#include "base/strange_flag.h"

#include "base/string_view.h"

namespace mtrun {
namespace {

constexpr char kStrangeFlag[] = "mtrun/strange_flag";

}  // namespace

absl::Status StrangeFlag(std::string_view message) {
  absl::Status status = absl::InvalidArgumentError(View(message));
  status.SetPayload(kStrangeFlag, absl::Cord());
  return status;
}

bool IsStrangeFlag(const absl::Status& status) { return status.GetPayload(kStrangeFlag).has_value(); }

}  // namespace mtrun

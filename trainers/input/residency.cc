#include "trainers/input/residency.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtrun::trainers {
namespace {

std::string Size(int64_t bytes) {
  return absl::StrFormat("%.3g GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

}  // namespace

absl::StatusOr<Residency> ChooseResidency(const std::string& wanted, const ResidencyNeeds& needs) {
  if (wanted == "on" && !needs.stay) {
    return absl::InvalidArgumentError(
        "--resident on needs all images at once, but the cache (--cache_gib) is smaller than the data set; "
        "--resident off reads them step by step");
  }
  const std::string room = absl::StrCat(Size(needs.images), " of images, ", Size(needs.free), " free");
  if (wanted == "on") {
    if (!needs.cuda || needs.images < needs.free) return Residency{true, ""};
    return absl::InvalidArgumentError(absl::StrCat("--resident on: ", room,
                                                   " on the GPU; with --resident off each micro-batch is "
                                                   "copied when it is needed"));
  }
  if (wanted == "off") return Residency{false, ""};
  if (!needs.cuda) return Residency{false, "auto, on a CPU"};
  if (!needs.stay) return Residency{false, "auto: the cache (--cache_gib) is smaller than the data set"};
  const bool fits = static_cast<double>(needs.images) <= needs.share * static_cast<double>(needs.free);
  return Residency{fits, absl::StrCat("auto: ", room, fits ? "" : ", more than resident_share")};
}

}  // namespace mtrun::trainers

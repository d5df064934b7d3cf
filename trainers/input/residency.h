// Whether the images of a run lie on its device. Free of LibTorch; a pure function.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

/// Where the images would go and how much there is for them.
struct ResidencyNeeds {
  bool cuda = false;
  bool stay = true;    // the images are on this machine all at a time: a cache (--cache_gib) may be too small
  int64_t images = 0;  // bytes of all images that the run reads
  int64_t free = 0;    // bytes of the device; on a CPU of no interest
  double share = 0.5;  // of `free` that "auto" takes at most: network and activations come later
};

struct Residency {
  bool resident = false;
  std::string why;  // for people, "" where the setting alone decided
};

/// `wanted`: "auto" (on a GPU where the images fit into the share), "on" or "off". kInvalidArgument: on, and
/// they do not fit into all of it, or are never here all at a time.
absl::StatusOr<Residency> ChooseResidency(const std::string& wanted, const ResidencyNeeds& needs);

}  // namespace mtrun::trainers

// Decides whether a run's images are kept on its device. A pure function, independent of LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace mtrun::trainers {

/// Destination of the images and the memory for them.
struct ResidencyNeeds {
  bool cuda = false;
  bool stay = true;    // all images fit on this machine at once; a cache (--cache_gib) can be too small
  int64_t images = 0;  // bytes of all images that the run reads
  int64_t free = 0;    // free bytes of the device; ignored on a CPU
  double share = 0.5;  // of `free` that "auto" takes at most, because network and activations come later
};

struct Residency {
  bool resident = false;
  std::string why;  // for the user, "" if the setting alone decided
};

/// `wanted`: "auto" (on a GPU, if the images fit into the share), "on" or "off". Returns kInvalidArgument for
/// "on" if the images do not fit into all of it, or are never here all at once.
absl::StatusOr<Residency> ChooseResidency(const std::string& wanted, const ResidencyNeeds& needs);

}  // namespace mtrun::trainers

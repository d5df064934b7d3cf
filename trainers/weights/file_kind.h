// Tells by its first bytes what a file is that should hold weights. Pure functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace mtrun::trainers {

/// Returns what a file is that begins with these bytes, if it is neither safetensors nor a file of
/// torch.save, and what to do about it. "": it can be safetensors. Its first kPthStartBytes bytes suffice.
std::string OtherKind(absl::string_view start);

}  // namespace mtrun::trainers

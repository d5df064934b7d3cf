// The kind of processor that computes, and its name. Numerical libraries choose their code by the kind, so results can differ in the
// last bits between kinds.
#pragma once

#include <string>

namespace mtrun {

/// Returns vendor, family and model, for example "AuthenticAMD family 25 model 17", or on ARM "ARM implementer
/// 0x41 part 0xd40"; "an unknown processor" if /proc/cpuinfo does not say. `root` as in processors.h.
std::string ProcessorKind(const std::string& root = "");

/// Returns the name that its maker gave it, or "unknown".
std::string ProcessorName(const std::string& root = "");

}  // namespace mtrun

// The version of this build: that of the CMake project.
#pragma once

#include <string>

namespace mtrun {

/// "0.1.0". Members of one job must have the same.
std::string Version();

}  // namespace mtrun

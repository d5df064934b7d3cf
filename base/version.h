// The version of this build, from the CMake project.
#pragma once

#include <string>
#include <string_view>

namespace mtrun {

/// Returns "0.2.0". All members of one job must have the same version.
std::string Version();

/// Returns the commit that the program was built from: eight digits, or "unknown".
const char* Commit();

/// Returns the --version line: "mtrun 0.2.0 (commit 01234567, gRPC 1.51.1)". `libraries` lists those whose
/// version matters, "" for none.
std::string VersionLine(std::string_view program, std::string_view libraries = "");

}  // namespace mtrun

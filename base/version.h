// The version of this build: that of the CMake project.
#pragma once

#include <string>
#include <string_view>

namespace mtrun {

/// "0.1.0". Members of one job must have the same.
std::string Version();

/// The commit that the program was built from: eight digits, or "unknown".
const char* Commit();

/// What a program says for --version: "mtrun 0.1.0 (commit 01234567, gRPC 1.51.1)". `libraries`: those whose
/// version matters, "" for none.
std::string VersionLine(std::string_view program, std::string_view libraries = "");

}  // namespace mtrun

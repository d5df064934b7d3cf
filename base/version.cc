#include "base/version.h"

namespace mtrun {

std::string Version() { return MTRUN_VERSION; }

// Weak: each program supplies its own (tools/cmake/MtCommit.cmake), so that a new commit relinks programs but
// no tests.
__attribute__((weak)) const char* Commit() { return "unknown"; }

std::string VersionLine(std::string_view program, std::string_view libraries) {
  std::string line(program);
  line.append(" ").append(Version()).append(" (commit ").append(Commit());
  if (!libraries.empty()) line.append(", ").append(libraries);
  return line + ")";
}

}  // namespace mtrun

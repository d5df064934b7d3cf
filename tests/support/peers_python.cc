#include "tests/support/peers_python.h"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mtrun::support {
namespace {

std::string CachedPython(const char* variable, const char* environment) {
  std::vector<std::string> candidates;
  if (const char* named = std::getenv(variable); named != nullptr) candidates.push_back(named);
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr) candidates.push_back(absl::StrCat(cache, "/mtrun/", environment, "/bin/python"));
  if (home != nullptr) candidates.push_back(absl::StrCat(home, "/.cache/mtrun/", environment, "/bin/python"));
  for (const std::string& path : candidates) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace

std::string PeersPython() { return CachedPython("MT_PEERS_PYTHON", "peers"); }
std::string MotoPython() { return CachedPython("MT_MOTO_PYTHON", "moto"); }

}  // namespace mtrun::support

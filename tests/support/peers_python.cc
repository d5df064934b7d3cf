#include "tests/support/peers_python.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::support {
namespace {

std::string CachedPython(const char* variable, const char* environment) {
  if (const char* named = std::getenv(variable); named != nullptr && access(named, X_OK) == 0) return named;
  return CachedFile(absl::StrCat(environment, "/bin/python"));
}

}  // namespace

std::string CachedFile(const std::string& name) {
  for (const auto& [variable, folder] :
       {std::pair{"XDG_CACHE_HOME", "/mtrun/"}, {"HOME", "/.cache/mtrun/"}}) {
    const char* value = std::getenv(variable);
    if (value == nullptr) continue;
    if (std::string path = absl::StrCat(value, folder, name); access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::string PeersPython() { return CachedPython("MT_PEERS_PYTHON", "peers"); }
std::string MotoPython() { return CachedPython("MT_MOTO_PYTHON", "moto"); }

}  // namespace mtrun::support

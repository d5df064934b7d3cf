#include "tests/tensorboard/read_package.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/program.h"

namespace mtrun::tensorboard {

std::string PackagePython() {
  // Like tools/common.sh.
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const std::string root = cache != nullptr ? cache : absl::StrCat(home == nullptr ? "" : home, "/.cache");
  const std::string python = root + "/mtrun/viewers/bin/python";
  if (!std::filesystem::exists(python)) return "";
  return support::Program({python, "-c", "import tensorboard"}).Wait() == 0 ? python : "";
}

nlohmann::json ReadByPackage(const std::string& how, const std::string& folder, const std::string& tag) {
  support::Program read(
      {PackagePython(), support::TestFile("tensorboard/read_package.py"), how, folder, tag});
  if (read.Wait() != 0) return {{"error", read.Text()}};
  return nlohmann::json::parse(absl::StrJoin(read.OutLines(), "\n"), nullptr, false);
}

}  // namespace mtrun::tensorboard

#include "tests/support/browser.h"

#include <cstdlib>
#include <filesystem>

namespace mtrun::support {

namespace fs = std::filesystem;

std::string BrowserPython() {
  const char* const named = std::getenv("MT_BROWSER_PYTHON");
  return named == nullptr ? "/usr/bin/python3" : named;
}

std::string WhyNoBrowser(const std::string& output) {
  const size_t at = output.rfind("no ");
  return at == std::string::npos ? output : output.substr(at);
}

void KeepPictures(const std::string& folder) {
  const char* const kept = std::getenv("MT_KEEP_PICTURES");
  if (kept == nullptr) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".png") continue;
    fs::copy_file(entry.path(), kept / entry.path().filename(), fs::copy_options::overwrite_existing);
  }
}

}  // namespace mtrun::support

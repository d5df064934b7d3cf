#include "tests/fuzz/invariant.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mtrun::fuzz {
namespace {

InvariantWatch* g_watch = nullptr;  // none while a fuzzer runs

}  // namespace

WatchInvariants::WatchInvariants(InvariantWatch& watch) { g_watch = &watch; }
WatchInvariants::~WatchInvariants() { g_watch = nullptr; }

bool Holds(bool condition, const char* file, int line) {
  if (g_watch == nullptr) return condition;
  const absl::string_view path = file;
  const std::string place = absl::StrCat(path.substr(path.rfind('/') + 1), ":", line);
  g_watch->reached.insert(place);
  return condition != (place == g_watch->broken);
}

}  // namespace mtrun::fuzz

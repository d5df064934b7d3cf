// Counts of things, written for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/string_view.h"

namespace mtrun {

/// Returns "1 node", "3 nodes". `noun` is singular and must form its plural with s.
inline std::string Counted(int64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", View(noun), count == 1 ? "" : "s");
}

}  // namespace mtrun

// Numbers of things, as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/string_view.h"

namespace mtrun {

/// "1 node", "3 nodes"; `noun` in the singular, its plural ends in s.
inline std::string Counted(int64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", View(noun), count == 1 ? "" : "s");
}

}  // namespace mtrun

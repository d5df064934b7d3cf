// A setting that nobody gave, and what it was derived from.
#pragma once

#include <string>

namespace mtrun::launcher {

struct DerivedSetting {
  std::string name, value, source;
  bool operator==(const DerivedSetting&) const = default;
};

}  // namespace mtrun::launcher

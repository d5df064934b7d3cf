// A setting that the user did not give, and its source.
#pragma once

#include <string>

namespace mtrun::launcher {

struct DerivedSetting {
  std::string name, value, source;
  bool operator==(const DerivedSetting&) const = default;
};

}  // namespace mtrun::launcher

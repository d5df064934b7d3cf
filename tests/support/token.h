// Tokens for tests.
#pragma once

#include <string>

namespace mtrun::support {

inline const std::string kToken = "mtrun1-" + std::string(64, 'a');
inline const std::string kOtherToken = "mtrun1-" + std::string(64, 'b');

}  // namespace mtrun::support

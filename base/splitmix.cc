#include "base/splitmix.h"

#include <cmath>
#include <numbers>

namespace mtrun {

double NamedStream::Normal(uint64_t i) const {
  return std::sqrt(-2.0 * std::log(1.0 - Uniform(2 * i))) *
         std::cos(2.0 * std::numbers::pi * Uniform(2 * i + 1));
}

}  // namespace mtrun

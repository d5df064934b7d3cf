// The order that people expect for numbered names: node2 before node10.
#pragma once

#include <string_view>

namespace mtrun::rendezvous {

/// Returns true if `a` comes before `b`: runs of digits compare as numbers, everything else byte by byte. A
/// strict weak order; names that differ only in leading zeros are ordered by their bytes.
bool NaturalLess(std::string_view a, std::string_view b);

}  // namespace mtrun::rendezvous

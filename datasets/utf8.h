// Whether a text can stand in a JSON file. Pure.
#pragma once

#include <string_view>

namespace mtrun::datasets {

bool IsUtf8(std::string_view text);

}  // namespace mtrun::datasets

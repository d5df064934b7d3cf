// Names in a text that stand for values: ${local_rank}. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace mtrun::launcher {

/// Puts the values of `${name}` and `$name` into `text`; `$$` gives `$`, a name without a value stays as it
/// is (Python's string.Template.safe_substitute, which torchrun uses).
std::string FillTemplate(std::string_view text, const std::map<std::string, std::string>& values);

}  // namespace mtrun::launcher

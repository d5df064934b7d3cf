// Substitution of named values in a text: ${local_rank}. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace mtrun::launcher {

/// Replaces `${name}` and `$name` in `text` by their values; `$$` becomes `$`, unknown names stay (like
/// Python's string.Template.safe_substitute, which torchrun uses).
std::string FillTemplate(std::string_view text, const std::map<std::string, std::string>& values);

}  // namespace mtrun::launcher

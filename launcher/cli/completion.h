// Shell completion of mtrun's flags, made from the table of settings. Pure text.
#pragma once

#include <string>
#include <string_view>

namespace mtrun::launcher {

/// `shell` is "bash" or "zsh". The program after the flags and its arguments complete as they do without
/// mtrun.
std::string CompletionScript(std::string_view shell);

}  // namespace mtrun::launcher

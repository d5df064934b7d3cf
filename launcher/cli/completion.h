// Shell completion of mtrun's flags, generated from the option table. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mtrun::launcher {

/// Returns the script for `shell`: "bash", "fish", "tcsh" or "zsh". The program's arguments complete as
/// without mtrun.
std::string CompletionScript(std::string_view shell);

}  // namespace mtrun::launcher

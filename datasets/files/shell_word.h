// Quotes words of commands that messages suggest. Pure.
#pragma once

#include <string>

namespace mtrun::datasets {

/// Returns `word` as one word for a shell, in quotes if it needs them.
std::string ShellWord(const std::string& word);

}  // namespace mtrun::datasets

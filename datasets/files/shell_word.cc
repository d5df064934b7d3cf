#include "datasets/files/shell_word.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace mtrun::datasets {

std::string ShellWord(const std::string& word) {
  const bool plain =
      !word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%=") ==
          std::string::npos;
  return plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace mtrun::datasets

#include "base/help_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/string_view.h"

namespace mtrun {

std::string WrappedText(std::string_view text, size_t width, size_t indent) {
  std::string wrapped;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(View(text), ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
      column = 0;
    }
    absl::StrAppend(&wrapped, column > 0 ? " " : "", word);
    column += word.size() + (column > 0 ? 1 : 0);
  }
  return wrapped;
}

std::string HelpText(const HelpPage& page, std::string_view flags) {
  std::string text = absl::StrCat(page.purpose, "\n\n");
  const char* before = "usage: ";
  for (const std::string& line : page.usage) {
    absl::StrAppend(&text, before, line, "\n");
    before = "       ";
  }
  if (!page.examples.empty()) absl::StrAppend(&text, "\nexamples:\n");
  for (const HelpExample& example : page.examples)
    absl::StrAppend(&text, "  # ", example.effect, "\n  ", example.command, "\n");
  if (!page.notes.empty()) absl::StrAppend(&text, "\n", page.notes);
  return absl::StrCat(text, View(flags));
}

}  // namespace mtrun

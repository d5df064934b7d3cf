#include "base/help_page.h"

#include "absl/strings/str_cat.h"
#include "base/string_view.h"

namespace mtrun {

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

#include "launcher/workers/text_template.h"

#include <cctype>

namespace mtrun::launcher {
namespace {

/// Returns the length of the name at the beginning of `text`.
size_t NameLength(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const auto c = static_cast<unsigned char>(text[size]);
    if (c != '_' && !(size == 0 ? std::isalpha(c) : std::isalnum(c))) break;
    ++size;
  }
  return size;
}

}  // namespace

std::string FillTemplate(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string filled;
  while (!text.empty()) {
    const size_t dollar = text.find('$');
    filled += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar);
    if (text.starts_with("$$")) {
      filled += '$';
      text.remove_prefix(2);
      continue;
    }
    const bool braced = text.starts_with("${");
    const std::string_view rest = text.substr(braced ? 2 : 1);
    const size_t size = NameLength(rest);
    const bool closed = !braced || (size < rest.size() && rest[size] == '}');
    const auto value = values.find(std::string(rest.substr(0, size)));
    const size_t whole = closed && size > 0 ? size + (braced ? 3 : 1) : 1;
    filled += closed && value != values.end() ? std::string_view(value->second) : text.substr(0, whole);
    text.remove_prefix(whole);
  }
  return filled;
}

}  // namespace mtrun::launcher

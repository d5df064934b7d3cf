#include "base/json_text.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun {
namespace {

/// Where the first bracket beyond `most_depth` levels stands; npos where there is none. Looks at brackets and
/// strings alone: what else is wrong is for the parser to say.
size_t FirstTooDeep(std::string_view text, int most_depth) {
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > most_depth) return at;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return std::string_view::npos;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, size_t most_bytes, int most_depth) {
  if (text.size() > most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("longer than ", most_bytes, " bytes, which is more than is read of it"));
  }
  if (const size_t at = FirstTooDeep(text, most_depth); at != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("nested deeper than ", most_depth, " levels at byte ", at, ": write it flatter"));
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // Its text may quote all that was read.
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON at byte ", error.byte, ": cut short, or no JSON"));
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError("not valid JSON: a number in it is too large");
  }
}

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, size_t most_bytes) {
  MT_ASSIGN_OR_RETURN(nlohmann::json value, ParseJson(text, most_bytes));
  if (!value.is_object()) return absl::InvalidArgumentError("not a JSON object ({...})");
  return value;
}

}  // namespace mtrun

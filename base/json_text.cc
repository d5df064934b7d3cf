#include "base/json_text.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun {
namespace {

/// Returns the position of the first bracket beyond `most_depth` levels, npos if there is none. Looks only at
/// brackets and strings; the parser reports all other errors.
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

absl::Status CheckBounds(std::string_view text, size_t most_bytes, int most_depth) {
  if (text.size() > most_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("longer than ", most_bytes, " bytes, the limit"));
  }
  if (const size_t at = FirstTooDeep(text, most_depth); at != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("nested deeper than ", most_depth, " levels at byte ", at, ": reduce the nesting"));
  }
  return absl::OkStatus();
}

/// The exception's own text can quote the whole input.
absl::Status NotValid(size_t position) {
  return absl::InvalidArgumentError(
      absl::StrCat("not valid JSON at byte ", position, ": truncated or malformed"));
}

absl::Status HasTooLargeNumber() {
  return absl::InvalidArgumentError("not valid JSON: it contains a number that is too large");
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, size_t most_bytes, int most_depth) {
  MT_RETURN_IF_ERROR(CheckBounds(text, most_bytes, most_depth));
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return NotValid(error.byte);
  } catch (const nlohmann::json::exception&) {
    return HasTooLargeNumber();
  }
}

std::string JsonLine(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool JsonEvents::parse_error(size_t position, const std::string&, const nlohmann::json::exception& why) {
  const bool malformed = dynamic_cast<const nlohmann::json::parse_error*>(&why) != nullptr;
  error_ = malformed ? NotValid(position) : HasTooLargeNumber();
  return false;
}

absl::Status ParseJsonEvents(std::string_view text, size_t most_bytes, JsonEvents& events) {
  MT_RETURN_IF_ERROR(CheckBounds(text, most_bytes, kMaxJsonDepth));
  if (nlohmann::json::sax_parse(text, &events)) return absl::OkStatus();
  MT_RETURN_IF_ERROR(events.error());
  return absl::AbortedError("the reader of the JSON text ended the parse");
}

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, size_t most_bytes) {
  MT_ASSIGN_OR_RETURN(nlohmann::json value, ParseJson(text, most_bytes));
  if (!value.is_object()) return absl::InvalidArgumentError("not a JSON object ({...})");
  return value;
}

}  // namespace mtrun

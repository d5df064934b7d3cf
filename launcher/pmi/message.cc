#include "launcher/pmi/message.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kLengthDigits = 6;
constexpr char kCommand[] = "cmd";

absl::Status Malformed(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("not a message of PMI2: ", why));
}

/// Reads "47    ", or the same with leading blanks: both are in use.
absl::StatusOr<size_t> ReadLength(std::string_view text) {
  const absl::string_view digits = absl::StripAsciiWhitespace(View(text));
  for (const char c : digits)
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return Malformed("its length is not a number");
  uint32_t length = 0;
  if (!absl::SimpleAtoi(digits, &length)) return Malformed("its length is not a number");
  if (length > PmiParser::kMaxBytes) return Malformed(absl::StrCat("its length is ", length));
  return length;
}

absl::StatusOr<PmiMessage> ReadBody(std::string_view text) {
  PmiMessage message;
  bool has_command = false;
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), field.size() + 1));
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos || equals == 0) return Malformed("a field is not NAME=VALUE");
    const std::string name(field.substr(0, equals)), value(field.substr(equals + 1));
    if (has_command) {
      message.fields.emplace_back(name, value);
    } else if (name == kCommand && !value.empty()) {
      has_command = true;
      message.command = value;
    } else {
      return Malformed("it does not begin with its command");
    }
  }
  if (!has_command) return Malformed("it is empty");
  return message;
}

}  // namespace

std::string_view PmiMessage::Field(std::string_view name) const {
  for (const auto& [key, value] : fields)
    if (key == name) return value;
  return "";
}

std::string Encode(const PmiMessage& message) {
  std::string body = absl::StrCat(kCommand, "=", message.command, ";");
  for (const auto& [name, value] : message.fields) {
    MT_CHECK(name.find_first_of(";=") == std::string::npos && value.find(';') == std::string::npos) << name;
    absl::StrAppend(&body, name, "=", value, ";");
  }
  return absl::StrFormat("%*d%s", static_cast<int>(kLengthDigits), body.size(), body);
}

absl::StatusOr<std::optional<PmiMessage>> PmiParser::Next() {
  if (bytes_.size() < kLengthDigits) return std::nullopt;
  MT_ASSIGN_OR_RETURN(const size_t length, ReadLength(std::string_view(bytes_).substr(0, kLengthDigits)));
  if (bytes_.size() < kLengthDigits + length) return std::nullopt;
  MT_ASSIGN_OR_RETURN(PmiMessage message, ReadBody(std::string_view(bytes_).substr(kLengthDigits, length)));
  bytes_.erase(0, kLengthDigits + length);
  return std::optional<PmiMessage>(std::move(message));
}

}  // namespace mtrun::launcher

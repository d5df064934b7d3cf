#include "base/error_file.h"

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun {
namespace {

std::string TextOf(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

constexpr size_t kShownBytes = 1000;

/// Returns the start of the text for people, without characters that move the cursor.
std::string Beginning(const std::string& text) {
  std::string shown = text.substr(0, kShownBytes);
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  if (shown.size() < text.size()) shown += "...";
  return shown;
}

}  // namespace

absl::StatusOr<ErrorRecord> ParseErrorFile(std::string_view text) {
  MT_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJsonObject(text, kMaxErrorFileBytes));
  const auto message = root.find("message");
  if (message == root.end()) return absl::InvalidArgumentError("an error file needs the key \"message\"");
  if (message->is_string()) return ErrorRecord{message->get<std::string>(), "", TextOf(root, "timestamp")};
  if (!message->is_object() || !message->contains("message")) {
    return absl::InvalidArgumentError(
        "\"message\" of an error file must be a string, or an object with a \"message\"");
  }
  ErrorRecord record{TextOf(*message, "message"), "", ""};
  if (const auto extra = message->find("extraInfo"); extra != message->end() && extra->is_object()) {
    record.callstack = TextOf(*extra, "py_callstack");
    record.timestamp = TextOf(*extra, "timestamp");
  }
  return record;
}

absl::StatusOr<ErrorRecord> ReadErrorFile(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::string text, ReadFileStart(path, kMaxErrorFileBytes + 1));
  absl::StatusOr<ErrorRecord> record = ParseErrorFile(text);
  if (record.ok()) return record;
  const absl::Status why = Annotate(record.status(), path);
  if (text.empty()) return why;
  return absl::Status(why.code(), absl::StrCat(why.message(), "; it begins with: ", Beginning(text)));
}

std::string ErrorFileText(std::string_view message, int64_t unix_seconds) {
  return JsonLine({{"message",
                    {{"message", std::string(message)},
                     {"extraInfo", {{"py_callstack", ""}, {"timestamp", absl::StrCat(unix_seconds)}}}}}});
}

absl::Status WriteErrorFile(const std::string& path, std::string_view message) {
  if (path.empty()) return absl::OkStatus();
  return WriteFileAtomically(path, ErrorFileText(message, std::time(nullptr)));
}

}  // namespace mtrun

#include "base/error_file.h"

#include <ctime>

#include "absl/strings/str_cat.h"
#include "base/json_lines.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun {
namespace {

std::string TextOf(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace

absl::StatusOr<ErrorRecord> ParseErrorFile(std::string_view text) {
  MT_ASSIGN_OR_RETURN(const nlohmann::json root, ParseJsonObject(text));
  const auto message = root.find("message");
  if (message == root.end()) return absl::InvalidArgumentError("an error file needs the key \"message\"");
  if (message->is_string()) return ErrorRecord{message->get<std::string>(), "", TextOf(root, "timestamp")};
  if (!message->is_object() || !message->contains("message")) {
    return absl::InvalidArgumentError(
        "\"message\" of an error file is a text, or an object with a \"message\"");
  }
  ErrorRecord record{TextOf(*message, "message"), "", ""};
  if (const auto extra = message->find("extraInfo"); extra != message->end() && extra->is_object()) {
    record.callstack = TextOf(*extra, "py_callstack");
    record.timestamp = TextOf(*extra, "timestamp");
  }
  return record;
}

std::string ErrorFileText(std::string_view message, int64_t unix_seconds) {
  const nlohmann::json json = {
      {"message",
       {{"message", std::string(message)},
        {"extraInfo", {{"py_callstack", ""}, {"timestamp", absl::StrCat(unix_seconds)}}}}}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::Status WriteErrorFile(const std::string& path, std::string_view message) {
  if (path.empty()) return absl::OkStatus();
  return WriteFileAtomically(path, ErrorFileText(message, std::time(nullptr)));
}

}  // namespace mtrun

#include "launcher/output/own_error_file.h"

#include <time.h>

#include "absl/strings/str_cat.h"
#include "base/error_file.h"
#include "base/json_text.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "launcher/output/failure_message.h"

namespace mtrun::launcher {
namespace {

/// Parses "2026-11-21T14:37:44.123Z" to whole seconds since 1970; 0 if it has another format.
int64_t Seconds(const std::string& wall_time) {
  tm parts = {};
  return strptime(wall_time.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr ? 0 : int64_t{timegm(&parts)};
}

nlohmann::json RecordOf(const rendezvous::JobOutcome& outcome) {
  std::string message = WhyEnded(outcome), wall_time;
  if (outcome.root_cause) {
    if (!outcome.root_cause->message.empty()) message = outcome.root_cause->message;
    wall_time = outcome.root_cause->wall_time;
  }
  // The first line is the error, the rest is its traceback.
  const size_t end = message.find('\n');
  nlohmann::json extra = {{"timestamp", absl::StrCat(Seconds(wall_time))}};
  if (end != std::string::npos) extra["py_callstack"] = message.substr(end + 1);
  return {{"message", {{"message", message.substr(0, end)}, {"extraInfo", extra}}}};
}

}  // namespace

std::string OwnErrorFile(std::string_view record, const rendezvous::JobOutcome& outcome) {
  nlohmann::json root = RecordOf(outcome);
  if (ParseErrorFile(record).ok()) root = *ParseJsonObject(record, kMaxErrorFileBytes);
  int code = outcome.exit_code;
  if (outcome.root_cause)
    code = outcome.root_cause->signal != 0 ? -outcome.root_cause->signal : outcome.root_cause->exit_code;
  // The flat form has no field for it.
  nlohmann::json& place = root["message"].is_object() ? root["message"] : root;
  place["errorCode"] = code;
  // A worker's bytes are not always UTF-8.
  return JsonLine(root);
}

absl::Status WriteOwnErrorFile(const std::string& path, const rendezvous::JobOutcome& outcome) {
  std::string record;
  const std::string beside = outcome.root_cause ? ErrorFileBeside(outcome.root_cause->log_file) : "";
  if (!beside.empty()) {
    // One byte more than the parser accepts, so that a longer file is rejected rather than truncated.
    if (auto text = ReadFileStart(beside, kMaxErrorFileBytes + 1); text.ok()) record = *std::move(text);
  }
  return Annotate(WriteFileAtomically(path, OwnErrorFile(record, outcome)), "TORCHELASTIC_ERROR_FILE");
}

}  // namespace mtrun::launcher

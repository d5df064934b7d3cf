// --event_log FILE: the events of this node as JSON lines, for monitoring programs. Pure functions make the
// records; fields may be added over time but are never renamed.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/posix.h"
#include "launcher/core/agent_events.h"
#include "nlohmann/json.hpp"

namespace mtrun::launcher {

/// Returns {"event": "worker_exited", ...}; nullopt if the event is not of interest outside.
std::optional<nlohmann::json> RecordOf(const Event& event);
std::optional<nlohmann::json> RecordOf(const Effect& effect);

/// Loop thread only. Without a file every call does nothing.
class EventLog {
 public:
  EventLog() = default;
  /// Appends to `path`; "" for none. Every line includes `host` and `run_id`.
  static absl::StatusOr<EventLog> Open(const std::string& path, std::string host, std::string run_id);

  template <typename Happening>
  void Write(const Happening& happening) {
    if (!file_.valid()) return;
    if (std::optional<nlohmann::json> record = RecordOf(happening)) Append(*std::move(record));
  }

 private:
  void Append(nlohmann::json record);

  UniqueFd file_;
  std::string path_, host_, run_id_;
  bool complained_ = false;
};

}  // namespace mtrun::launcher

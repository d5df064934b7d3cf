// mtrun --top: a service's status on a whole terminal, for users over ssh. The drawing is pure.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/terminal.h"
#include "rendezvous/client/status_client.h"

namespace mtrun::launcher {

class TopScreen {
 public:
  static constexpr size_t kMaxChanges = 200;

  TopScreen(std::string where, bool colours) : where_(std::move(where)), colours_(colours) {}

  /// `time`: time of day of the change, "14:37:44".
  void OnAnswer(const rendezvous::ServiceStatus& status, const std::string& time);
  void OnSilence(const absl::Status& why, const std::string& time);

  /// Returns one line per terminal row, none longer than its columns: a heading, the jobs with their nodes,
  /// and below them the changes, newest last.
  std::string Draw(const TerminalSize& size) const;

 private:
  void AddChange(const std::string& time, const std::string& what);
  /// Returns as many changes as fit into `room` lines, newest last.
  std::vector<std::string> NewestChanges(size_t room, size_t columns) const;

  const std::string where_;
  const bool colours_;
  std::string table_;    // from the last answer
  std::string silence_;  // error of the last request; "": answered
  std::string last_time_;
  std::map<std::string, std::string> reasons_;  // last change by job
  std::deque<std::string> changes_;
};

}  // namespace mtrun::launcher

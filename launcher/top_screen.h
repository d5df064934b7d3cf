// mtrun --top: the status of a service on a whole terminal, for people over ssh. The picture is pure.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/terminal.h"
#include "rendezvous/status_client.h"

namespace mtrun::launcher {

class TopScreen {
 public:
  static constexpr size_t kMostChanges = 200;

  TopScreen(std::string where, bool colours) : where_(std::move(where)), colours_(colours) {}

  /// `time`: of the day, for what has changed: "14:37:44".
  void OnAnswer(const rendezvous::ServiceStatus& status, const std::string& time);
  void OnSilence(const absl::Status& why, const std::string& time);

  /// As many lines as the terminal has rows, none longer than its columns: a heading, the jobs with their
  /// nodes, and below them what has changed, the newest last.
  std::string Draw(const TerminalSize& size) const;

 private:
  void AddChange(const std::string& time, const std::string& what);
  /// As many as fit into `room` lines, the newest last.
  std::vector<std::string> NewestChanges(size_t room, size_t columns) const;

  const std::string where_;
  const bool colours_;
  std::string table_;    // of the last answer
  std::string silence_;  // why there is no newer one; "": there is
  std::string last_time_;
  std::map<std::string, std::string> reasons_;  // last change by job
  std::deque<std::string> changes_;
};

}  // namespace mtrun::launcher

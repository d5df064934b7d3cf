// How one worker ended, as seen by its agent. A value.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous {

/// Exit statuses of shells for a program that does not exist, and for one that cannot be executed.
inline constexpr int kNoSuchProgramStatus = 127, kNotExecutableStatus = 126;
/// Exit statuses of trainers that no retry can help: their settings are wrong, and they hold different states
/// of one step.
inline constexpr int kWrongSettingsStatus = 2, kDifferentStatesStatus = 3;

struct WorkerFailure {
  std::string host;
  int rank = 0, local_rank = 0;
  int64_t pid = 0;
  int exit_code = 0;  // valid if signal is 0
  int signal = 0;
  std::string log_file;   // its standard error on `host`; "" for none
  std::string message;    // from the error file, or the last lines of its standard error
  std::string wall_time;  // for people
  bool early = false;     // it had never been ready to join
  int64_t failed_at_ns =
      0;  // its node's wall clock, ns since 1970; 0: unknown; only to choose the root cause
  bool operator==(const WorkerFailure&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("host", self.host, Size{0, kMaxText});
    field("rank", self.rank);
    field("local_rank", self.local_rank);
    field("pid", self.pid);
    field("exit_code", self.exit_code, Range{-255, 255});
    field("signal", self.signal, Range{0, 127});
    field("log_file", self.log_file, Size{0, kMaxText});
    field("message", self.message, Size{0, kMaxText});
    field("wall_time", self.wall_time, Size{0, kMaxText});
    field("early", self.early);
    field("failed_at_ns", self.failed_at_ns);
  }
};

/// Returns why a restart cannot help whatever the budget; "" if it may. Some statuses are used only by
/// trainers.
std::string WhyHopeless(const WorkerFailure& failure, bool trainer);
/// Returns "rank 1 on node2: killed by SIGKILL".
std::string Brief(const WorkerFailure& failure);
/// Returns one line: "rank 1 (local 1, pid 123) on node2: killed by SIGKILL".
std::string Describe(const WorkerFailure& failure);
/// Returns the same and the path of its log.
std::string DescribeWithLog(const WorkerFailure& failure);

}  // namespace mtrun::rendezvous

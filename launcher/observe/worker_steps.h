// Progress and step times of this node's workers, from their messages. A value; time is an argument.
#pragma once

#include <deque>
#include <map>

#include "base/clock.h"
#include "base/worker_channel.h"
#include "rendezvous/wire/node_use.h"

namespace mtrun::launcher {

class WorkerSteps {
 public:
  /// Averaging window of step times; at least two reports.
  static constexpr Duration kWindow = std::chrono::seconds(5);
  static constexpr size_t kMaxReports = 64;

  /// Records that another process took the local rank.
  void OnStarted(int local_rank) { workers_.erase(local_rank); }
  void OnProgress(int local_rank, const channel::Progress& progress, TimePoint now);
  void OnTimes(int local_rank, const channel::StepTimes& times);
  /// Sets the known values of that worker.
  void Fill(int local_rank, TimePoint now, rendezvous::WorkerUse* use) const;

 private:
  struct Report {
    TimePoint at;
    int64_t step = 0;
  };
  struct Worker {
    std::deque<Report> reports;  // oldest first; steps grow
    int64_t samples = -1;
    channel::StepTimes times;
  };
  std::map<int, Worker> workers_;  // by local rank
};

}  // namespace mtrun::launcher

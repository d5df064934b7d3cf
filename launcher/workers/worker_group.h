// The workers of this node in one generation: starts them, watches their pidfds, tells when one ended and
// when nothing of its group is left. Runs on the io_context's thread, which must be the process's main thread
// (see process.h); so do its handlers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/core/agent_events.h"
#include "launcher/output/log_files.h"
#include "launcher/output/output_mux.h"
#include "launcher/workers/process.h"

namespace asio {
class io_context;
}

namespace mtrun::launcher {

struct WorkerLaunch {
  ProcessSpec spec;
  WorkerStreams streams;  // without the descriptors
  WorkerFiles files;
};

class WorkerGroup {
 public:
  /// Never called from inside a method of this class.
  struct Handler {
    std::function<void(const WorkerExited&)> exited;
    std::function<void(const WorkerGone&)> gone;
    std::function<absl::StatusOr<Process>(const ProcessSpec&)> start = Process::Start;
    /// A child of this process that is no worker and lives on, -1 for none.
    std::function<pid_t()> helper = [] { return -1; };
    /// How long a worker that has recorded an error may take to end before it is told to, and then killed.
    Duration record_patience = std::chrono::seconds(5);
  };

  static std::unique_ptr<WorkerGroup> Make(asio::io_context& io, OutputMux& output, Handler handler);
  virtual ~WorkerGroup() = default;  // as Clear

  virtual bool empty() const = 0;
  /// Local rank = place in `launches`. A worker that cannot be started is reported as exited with 127, 126 or
  /// 1 and gone.
  virtual void Start(std::vector<WorkerLaunch> launches) = 0;
  /// Starts another worker in the place of one whose group is gone, beside those that live on.
  virtual void Replace(int local_rank, WorkerLaunch launch) = 0;
  /// Of the worker's process, -1 when it has ended.
  virtual int64_t PidOf(int local_rank) const = 0;
  /// To every process group that is left.
  virtual void Signal(int signal) = 0;
  virtual void SignalOne(int local_rank, int signal) = 0;
  /// On SIGCHLD: reaps orphans that came to this process and looks which groups are empty.
  virtual void OnChildSignal() = 0;
  /// Kills and reaps all workers and everything else that descends from this process.
  virtual void Clear() = 0;
  /// Forgets the workers, which have ended; what they have started lives on.
  virtual void Leave() = 0;
};

}  // namespace mtrun::launcher

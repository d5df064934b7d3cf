// The workers of this node in one generation: starts them, and reports when one has exited and when its
// process group is empty. SIGCHLD is the only notice: a descriptor for each worker would lower the number
// that fits. Runs on the io_context's thread, which must be the process's main thread (see process.h); the
// handlers run there too.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "launcher/core/agent_events.h"
#include "launcher/output/output_mux.h"
#include "launcher/workers/process.h"

namespace asio {
class io_context;
}

namespace mtrun::launcher {

struct WorkerLaunch {
  ProcessSpec spec;
  WorkerStreams streams;  // without the descriptors
};

class WorkerGroup {
 public:
  /// Never called from within a method of this class.
  struct Handler {
    std::function<void(const WorkerExited&)> exited;
    std::function<void(const WorkerGone&)> gone;
    std::function<absl::StatusOr<Process>(const ProcessSpec&)> start = Process::Start;
    /// Returns the pid of a child of this process that is not a worker and is kept alive; -1 for none.
    std::function<pid_t()> helper = [] { return -1; };
    /// How long a worker that has recorded an error has to exit before SIGTERM, and again before SIGKILL.
    Duration record_patience = std::chrono::seconds(5);
  };

  static std::unique_ptr<WorkerGroup> Make(asio::io_context& io, OutputMux& output, Handler handler);
  virtual ~WorkerGroup() = default;  // as Clear

  virtual bool empty() const = 0;
  /// Starts the workers; the local rank is the index in `launches`. If a worker cannot be started it is
  /// reported as exited with 127, 126 or 1, and as gone.
  virtual void Start(std::vector<WorkerLaunch> launches) = 0;
  /// Starts a replacement of a worker whose group is gone, beside the survivors.
  virtual void Replace(int local_rank, WorkerLaunch launch) = 0;
  /// Returns the pid of the worker; -1 if it has exited.
  virtual int64_t PidOf(int local_rank) const = 0;
  /// Sends `signal` to every process group that is left.
  virtual void Signal(int signal) = 0;
  virtual void SignalOne(int local_rank, int signal) = 0;
  /// Handles SIGCHLD: reports exits and empty groups, and reaps orphans that this process adopted.
  virtual void OnChildSignal() = 0;
  /// Kills and reaps all workers and all other descendants of this process.
  virtual void Clear() = 0;
  /// Forgets the workers, which have exited; their child processes stay.
  virtual void Leave() = 0;
};

}  // namespace mtrun::launcher

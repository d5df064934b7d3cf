// This node's workers at run time: their processes, output, channel and master port. Performs AgentCore's
// effects on them and posts their events. Runs on the io_context's thread, which must be the process's main
// thread (see process.h); the handlers run there too.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/channel/channel_server.h"
#include "launcher/channel/store_forwarder.h"
#include "launcher/core/agent_events.h"
#include "launcher/net/held_port.h"
#include "launcher/observe/use_report.h"
#include "launcher/output/failure_report.h"
#include "launcher/output/log_reader.h"
#include "launcher/output/output_mux.h"
#include "launcher/store/store_door.h"
#include "launcher/store/tcp_store_server.h"
#include "launcher/workers/launch_plan.h"
#include "launcher/workers/stack_dump.h"
#include "launcher/workers/warm_python.h"
#include "launcher/workers/worker_group.h"

namespace mtrun::launcher {

class Supervisor {
 public:
  struct Handler {
    std::function<void(const Event&)> event;
    /// Sends a worker's request to the generation's key-value store, or an answer to a reader of its log.
    std::function<void(const rendezvous::AgentEvent&)> ask_service;
    /// Returns the running generation; {0, 0}: none.
    std::function<rendezvous::Generation()> generation;
    /// Returns the rank in that generation for a local rank; -1: none.
    std::function<int(int)> rank_of;
  };

  /// The references must outlive this object.
  Supervisor(asio::io_context& io, const Options& options, const Program& program, LogFiles& log_files,
             std::shared_ptr<StoreDoor> door, Handler handler);
  ~Supervisor() { door_->LeadTo(nullptr); }

  /// Opens the workers' channel. `timer_file`: their TORCHELASTIC_TIMER_FILE, "" for none.
  absl::Status Start(const std::string& timer_file, const KeptFiles& kept);

  /// Reserves another port for MASTER_PORT. Clients of the store that come to the endpoint wait from now on.
  absl::Status HoldFreshPort();
  int held_port() const { return held_port_.port(); }
  /// Begins a generation. On its first node PyTorch's store is served at MASTER_PORT from now on (replacing
  /// the last generation's), or the port stays reserved for rank 0; other nodes release the port.
  absl::Status BeginGeneration(const rendezvous::Assignment& assignment, size_t member);
  const std::shared_ptr<Console>& console() const { return output_.console(); }

  /// Returns the workers' unanswered requests, to repeat after a reconnect.
  std::vector<rendezvous::AgentEvent> OpenQuestions() const { return store_.Open(); }
  void Answer(const rendezvous::StoreReply& reply);
  /// Answers a request for the workers' resource use.
  void Answer(const rendezvous::UseAsked& question);
  /// Writes the current stacks of all workers to files.
  void DumpStacks();

  /// Returns the failed workers of the newest generation on this node, in order of their exits.
  std::vector<OtherFailure> OtherFailures(const rendezvous::WorkerFailure& cause) const;

  /// Notes that this mtrun was asked to stop: its exit then does not wait for a slow console.
  void NoteStop(const Event& event) {
    stopping_ |= std::holds_alternative<SignalReceived>(event);
    stopping_ |= std::holds_alternative<PreemptFileAppeared>(event);
  }
  void OnChildSignal() { workers_->OnChildSignal(); }
  void KillAll() { workers_->Clear(); }

  void Perform(const StartWorkers& effect);
  void Perform(const SignalWorkers& effect) { workers_->Signal(effect.signal); }
  void Perform(const SignalWorker& effect) { workers_->SignalOne(effect.local_rank, effect.signal); }
  void Perform(const SendToWorker& effect) { channel_->SendToRank(effect.local_rank, effect.message); }
  void Perform(const InspectWorker& effect);
  void Perform(const ReadLog& effect);
  void Perform(const CleanUp& effect);

 private:
  void OnMessage(int64_t connection, int local_rank, const channel::WorkerMessage& message);
  /// Returns the key for data servers, "" if this node has none.
  const std::string& DataKeyText();
  void WarnOfProgress(int local_rank, const std::string& what);
  void OnExited(const WorkerExited& event);
  absl::StatusOr<Process> StartProcess(const ProcessSpec& spec);
  void ServeStore(std::unique_ptr<TcpStoreServer> store);
  /// For --warm_python: starts an interpreter unless one runs, or one has failed to import its modules.
  void StartWarmPython();
  std::map<int, int64_t> RunningPids() const;

  asio::io_context& io_;
  const Options& options_;
  const Program& program_;
  LogFiles& log_files_;
  const std::shared_ptr<StoreDoor> door_;  // forwards to torch_store_
  const Handler handler_;
  HeldPort held_port_;
  std::unique_ptr<TcpStoreServer> torch_store_;  // newest generation with its first node here
  StoreForwarder store_;
  bool stopping_ = false;
  std::optional<std::string> data_key_;  // since a program asked for it
  // Time after which output must not wait any more. The console, which reads it, may outlive this object.
  const std::shared_ptr<std::optional<TimePoint>> hurry_at_;
  OutputMux output_;
  LogReader logs_;
  UseReport use_;
  StackDump stacks_;
  std::set<int> reporting_;             // local ranks of workers that support Watch
  std::set<int> implausible_;           // local ranks whose workers have sent progress that was ignored
  std::vector<WorkerExited> failures_;  // in the newest generation
  int first_rank_ = 0;                  // in the newest generation
  int master_port_ = 0;                 // of the newest generation
  std::map<int, WorkerFiles> files_;    // newest worker by local rank
  std::unique_ptr<ChannelServer> channel_;
  std::optional<LaunchPlan> launches_;
  std::unique_ptr<WarmPython> warm_python_;
  bool warm_was_ready_ = true;  // the last one became ready
  std::unique_ptr<WorkerGroup> workers_;
};

}  // namespace mtrun::launcher

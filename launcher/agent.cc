#include "launcher/agent.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <asio.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/lease_page.h"
#include "base/link_zone.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/posix.h"
#include "base/signal_name.h"
#include "base/status_macros.h"
#include "base/token.h"
#include "base/value_or.h"
#include "launcher/core/agent_core.h"
#include "launcher/observe/monitors.h"
#include "launcher/observe/preempt_file.h"
#include "launcher/outcome_report.h"
#include "launcher/rendezvous_access.h"
#include "launcher/succession.h"
#include "launcher/supervisor.h"
#include "launcher/workers/guardian.h"
#include "page/page.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kFlushPatience = std::chrono::seconds(1);
constexpr Duration kToldPause = std::chrono::milliseconds(50);

AgentConfig CoreConfig(const Options& options, const rendezvous::Offer& offer, const std::string& endpoint) {
  return {offer,
          endpoint,
          options.job.max_restarts,
          options.shutdown_timeout,
          options.connect_timeout,
          options.job.fence_timeout,
          options.warm_up,
          options.hang_notice,
          options.hang_timeout,
          options.warm_up && isatty(STDERR_FILENO) == 1,
          options.nodes_from_slurm,
          LinkZone()};
}

class Agent {
 public:
  Agent(const Options& options, const Program& program, LogFiles& log_files, const PresencePort& presence,
        const LeaseAlarm& alarm, RendezvousAccess access, std::shared_ptr<StoreDoor> door)
      : options_(options),
        program_(program),
        log_folder_(options.keeps_logs ? log_files.folder() : ""),
        access_(std::move(access)),
        alarm_(alarm),
        presence_(presence.fd()),
        offer_(MakeOffer(options_, access_, presence)),
        core_(CoreConfig(options_, offer_, access_.endpoint), MonotonicNow()),
        signals_(io_),
        deadline_(io_),
        stamp_(io_),
        preemption_(io_, options_.preempt_file, [this] { Feed(PreemptFileAppeared{}); }),
        supervisor_(io_, options, program, log_files, std::move(door),
                    {[this](const Event& event) { OnWorkers(event); },
                     [this](const rendezvous::AgentEvent& event) { session_->Send(event); },
                     [this] {
                       return core_.assignment() ? core_.assignment()->generation : rendezvous::Generation{};
                     },
                     [this](int local_rank) { return core_.RankOf(local_rank); }}) {
    // mtrun's own log lines share the workers' queue from here on: a blocked terminal delays no decision.
    log::SetSink([console = supervisor_.console()](std::string line) { console->Say(std::move(line)); });
  }

  int Run() {
    const absl::Status started = Start();
    if (!started.ok()) {
      log::Error(started.message());
      return 1;
    }
    io_.run();
    page_.reset();
    succession_.reset();
    session_.reset();  // before the service, so that it does not reconnect
    if (access_.hosting && outcome_) access_.hosting->NoteEnd(run_, *outcome_);
    WaitForAcks();
    return exit_code_;
  }

 private:
  absl::Status Start() {
    MT_RETURN_IF_ERROR(WatchSignals());
    const EnvironmentMap environment = CurrentEnvironment();
    MT_ASSIGN_OR_RETURN(watching_, StartWatching(io_, environment, options_.event_log, options_.job.job_id,
                                                 [this] { return core_.takes_part(); }));
    MT_RETURN_IF_ERROR(OpenLease());
    MT_RETURN_IF_ERROR(supervisor_.Start(watching_.timer_file(), {lease_ ? lease_->fd() : -1, presence_}));
    error_file_ = ValueOr(environment, "TORCHELASTIC_ERROR_FILE");
    if (!log_folder_.empty()) log::Info("the workers' output is kept in ", log_folder_);
    MT_RETURN_IF_ERROR(preemption_.Watch());
    MT_RETURN_IF_ERROR(ServePage());
    StartSession();
    ArmDeadline();
    return absl::OkStatus();
  }

  /// Serves the page of the services that may have the job; each generation may add some.
  absl::Status ServePage() {
    if (options_.http.empty()) return absl::OkStatus();
    page::PageOptions page{options_.http, PlacesOfServices(nullptr), access_.insecure, access_.token,
                           access_.token};
    if (access_.insecure) {
      MT_ASSIGN_OR_RETURN(page.page_token,
                          LoadToken({options_.token_file, options_.weak_token}, MissingToken::kMake));
    }
    MT_ASSIGN_OR_RETURN(page_, page::Page::Start(page));
    return absl::OkStatus();
  }

  std::vector<std::string> PlacesOfServices(const rendezvous::Assignment* generation) const {
    std::vector<std::string> places = options_.job.endpoints;
    if (places.empty()) places.push_back(access_.endpoint);
    if (generation != nullptr) rendezvous::AppendServices(*generation, &places);
    return places;
  }

  /// Opens the lease unless this node is the whole job: no generation can form without it then.
  absl::Status OpenLease() {
    if (options_.standalone || options_.job.fence_timeout == Duration::zero()) return absl::OkStatus();
    MT_ASSIGN_OR_RETURN(lease_, LeasePage::Make());
    lease_->Set(/*generation=*/0, BootNow() + options_.job.fence_timeout);
    return absl::OkStatus();
  }

  absl::Status WatchSignals() {
    const sigset_t signals = WatchedSignals();
    const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) return ErrnoStatus(errno, "watch signals");
    signals_.assign(fd);
    AwaitSignal();
    return absl::OkStatus();
  }

  void AwaitSignal() {
    signals_.async_wait(asio::posix::stream_descriptor::wait_read, [this](std::error_code error) {
      if (error) return;
      signalfd_siginfo info;
      while (read(signals_.native_handle(), &info, sizeof info) == sizeof info)
        OnSignal(static_cast<int>(info.ssi_signo));
      AwaitSignal();
    });
  }

  void OnSignal(int signal) {
    if (signal == SIGCHLD) return supervisor_.OnChildSignal();
    if (signal == ParentGoneSignal()) {
      log::Error("mtrun's guardian was killed: stopping everything");
      supervisor_.KillAll();
      _exit(128 + SIGKILL);
    }
    if (IsForwarded(signal)) {
      log::Info("passing ", SignalName(signal), " on to the workers");
      return supervisor_.Perform(SignalWorkers{signal});
    }
    if (AsksForStacks(signal)) {
      log::Info("received ", SignalName(signal), ": writing the stacks of all workers of this node");
      return supervisor_.DumpStacks();
    }
    Feed(SignalReceived{signal});
  }

  /// Opens the session. Its handlers run on its own thread.
  void StartSession() {
    const auto post = [this](Event event) {
      asio::post(io_, [this, event = std::move(event)] { Feed(event); });
    };
    rendezvous::SessionClient::Handler handler;
    handler.event = [this](const auto& event) { asio::post(io_, [this, event] { OnServiceEvent(event); }); };
    handler.connected = [this](const rendezvous::ServiceHost& host) {
      if (access_.hosting) access_.hosting->PauseHosting(host);
      if (succession_) succession_->OnConnected(host);
      asio::post(io_, [this] { OnConnected(); });
    };
    handler.disconnected = [this, post](const std::string& why, Duration silent_for) {
      if (access_.hosting) access_.hosting->StartHosting();
      if (succession_) succession_->OnDisconnected(silent_for);
      post(SessionDisconnected{why});
    };
    // Written here, so that the workers see it at once even if this loop is busy.
    handler.leased = [this, post](const rendezvous::Generation& generation, Duration from) {
      if (!lease_) return;
      const Duration ends = from + options_.job.fence_timeout;
      // Must be first: workers on hold may finish before this thread continues.
      post(LeaseRenewed{MonotonicNow() + (ends - BootNow())});
      lease_->Set(generation.id, ends);
      const MutexLock lock(alarm_mutex_);
      if (alarmed_) alarm_.Set(ends);
    };
    handler.leased_outside = [this](const rendezvous::Generation& left, Duration from) {
      if (lease_) lease_->SetOutside(left.id, from + options_.job.fence_timeout);
    };
    handler.failed = [post](absl::Status status) { post(SessionFailed{std::string(status.message())}); };
    if (access_.hosting) access_.hosting->StartHosting();
    if (access_.hosting && options_.job.endpoints.size() < 2) {
      succession_.emplace(HostWatch(options_.job.takeover_majority, options_.job.LostAfter()),
                          Succession::Self{offer_.presence_id, access_.insecure}, *access_.hosting,
                          [this](const std::vector<std::string>& services) { session_->TryToo(services); });
    }
    session_ = OpenSession(options_, access_, offer_.node_id, handler);
    session_->SetOrdinary(core_.ordinary());
    Stamp();
  }

  /// If this node hosts: waits for members that were cut off when the job ended, so that they learn the
  /// outcome. The wait ends after the service's limit, or on a stop signal.
  void WaitForAcks() {
    // Even if the job has ended here and this agent, which was told to go, has not heard of that.
    if (!access_.hosting) return;
    bool said = false;
    for (auto untold = access_.hosting->NodesWithoutOutcome(); !untold.empty();
         untold = access_.hosting->NodesWithoutOutcome()) {
      if (!std::exchange(said, true))
        log::Info("still hosting the rendezvous for a moment: ", absl::StrJoin(untold, ", "),
                  untold.size() == 1 ? " has" : " have", " not acknowledged the end of the job yet");
      if (const int signal = StopSignalWithin(kToldPause); signal != 0)
        return void(kill(getpid(), signal));  // for the parent processes, too
    }
  }

  /// Marks this loop as alive for the heartbeats.
  void Stamp() {
    session_->StampMainLoop();
    stamp_.expires_after(options_.job.heartbeat_interval / 2);
    stamp_.async_wait([this](std::error_code error) {
      if (!error) Stamp();
    });
  }

  void OnWorkers(Event event) {
    if (auto* exited = std::get_if<WorkerExited>(&event)) {
      const bool killed = alarm_.kills().Take(static_cast<pid_t>(exited->pid));
      exited->by_lease = killed && exited->signal == SIGKILL;
    }
    Feed(event);
  }

  void OnConnected() {
    Feed(SessionConnected{});
    for (const rendezvous::AgentEvent& question : supervisor_.OpenQuestions()) session_->Send(question);
  }

  void OnServiceEvent(const rendezvous::ServiceEvent& event) {
    if (const auto* reply = std::get_if<rendezvous::StoreReply>(&event)) return supervisor_.Answer(*reply);
    if (const auto* question = std::get_if<rendezvous::UseAsked>(&event))
      return supervisor_.Answer(*question);
    if (const auto* call = std::get_if<rendezvous::ControlCall>(&event);
        call != nullptr && std::holds_alternative<rendezvous::StacksCall>(call->what))
      supervisor_.DumpStacks();
    if (const auto* mine = std::get_if<rendezvous::Assigned>(&event)) OnMembership(mine->assignment());
    if (const auto* others = std::get_if<rendezvous::Membership>(&event))
      OnMembership(others->generation.assignment());
    if (const auto* ended = std::get_if<rendezvous::JobEnded>(&event)) outcome_ = ended->outcome;
    Feed(event);
  }

  void OnMembership(const rendezvous::Assignment& generation) {
    run_ = {generation.incarnation, generation.generation.number};
    if (page_) page_->SetEndpoints(PlacesOfServices(&generation));
    if (succession_) succession_->OnMembership(generation);
  }

  void Feed(const Event& event) {
    supervisor_.NoteStop(event);
    watching_.events.Write(event);
    const Effects effects = core_.Step(event, MonotonicNow());
    BeginGeneration();
    session_->SetOrdinary(core_.ordinary());
    SetAlarm();  // before the workers start: this process may be suspended at any time
    for (const Effect& effect : effects) {
      watching_.events.Write(effect);
      std::visit([this](const auto& e) { Perform(e); }, effect);
    }
    ArmDeadline();
  }

  /// Prepares a new generation before its workers start.
  void BeginGeneration() {
    const std::optional<rendezvous::Assignment>& now = core_.assignment();
    if (!now || now->generation == begun_) return;
    begun_ = now->generation;
    const absl::Status served = supervisor_.BeginGeneration(*now, core_.member());
    if (!served.ok()) log::Error("no store for the workers: ", served.message());
  }

  /// Sets the alarm while there are workers that cannot hold.
  void SetAlarm() {
    const bool wanted = lease_ && core_.workers_die_with_lease();
    const MutexLock lock(alarm_mutex_);  // an alarm set by the session's thread must not remain
    if (std::exchange(alarmed_, wanted) != wanted) alarm_.Set(wanted ? lease_->deadline() : std::nullopt);
  }

  void ArmDeadline() {
    const std::optional<TimePoint> when = core_.NextDeadline();
    if (!when) return void(deadline_.cancel());
    deadline_.expires_at(*when);
    deadline_.async_wait([this](std::error_code error) {
      if (!error) Feed(Tick{});
    });
  }

  /// Performs an effect on the workers.
  template <typename OfWorkers>
  void Perform(const OfWorkers& effect) {
    supervisor_.Perform(effect);
  }

  void Perform(const CleanUp& effect) {
    supervisor_.Perform(effect);
    alarm_.kills().Forget();
  }

  void Perform(const SendOffer& effect) {
    const absl::Status held = effect.fresh ? supervisor_.HoldFreshPort() : absl::OkStatus();
    // After the other effects, because the failure must also stop what they start.
    if (!held.ok())
      return asio::post(io_, [this, why = std::string(held.message())] { Feed(SessionFailed{why}); });
    rendezvous::Offer offer = effect.offer;
    offer.master_port =
        options_.MasterPort(access_.hosting ? access_.hosting->port() : 0, supervisor_.held_port());
    session_->Send(rendezvous::OfferSent{offer, effect.seen});
  }

  void Perform(const SendToService& effect) { session_->Send(effect.event); }
  void Perform(const ShowNote& effect) { session_->SetNote(effect.text); }
  void Perform(const WriteLog& effect) { log::Write(effect.level, effect.text); }

  void Perform(const Exit& effect) {
    exit_code_ = effect.code;
    if (effect.outcome) {
      const auto cause = effect.outcome->root_cause.value_or(rendezvous::WorkerFailure());
      ReportOutcome(*effect.outcome, program_.name, supervisor_.OtherFailures(cause), error_file_,
                    *supervisor_.console());
    }
    if (!session_->Flush(kFlushPatience)) log::Debug("the service did not acknowledge everything");
    io_.stop();
  }

  // Constant after construction.
  const Options& options_;
  const Program& program_;
  const std::string log_folder_;
  const RendezvousAccess access_;
  const LeaseAlarm& alarm_;
  const int presence_;  // its descriptor
  const rendezvous::Offer offer_;

  // Set before the session starts, because its thread renews the lease and sets the alarm.
  std::optional<LeasePage> lease_;
  Mutex alarm_mutex_;
  bool alarmed_ ABSL_GUARDED_BY(alarm_mutex_) = false;

  // Loop thread only.
  asio::io_context io_;
  AgentCore core_;
  Watching watching_;
  std::string error_file_;  // mtrun's own TORCHELASTIC_ERROR_FILE
  asio::posix::stream_descriptor signals_;
  asio::steady_timer deadline_, stamp_;
  PreemptFile preemption_;
  Supervisor supervisor_;
  std::unique_ptr<rendezvous::SessionClient> session_;
  std::optional<Succession> succession_;  // uses the session
  std::unique_ptr<page::Page> page_;
  int exit_code_ = 1;
  rendezvous::Generation begun_;
  rendezvous::EndedRun run_;                       // latest known run; incarnation 0: none
  std::optional<rendezvous::JobOutcome> outcome_;  // as reported by the service
};

}  // namespace

int RunAgent(const Options& options, const Program& program, LogFiles& log_files,
             const PresencePort& presence, const LeaseAlarm& alarm) {
  int signal = 0;
  const auto door = std::make_shared<StoreDoor>();
  absl::StatusOr<std::optional<RendezvousAccess>> access = OpenRendezvous(options, presence, &signal, door);
  if (!access.ok()) {
    log::Error(access.status().message());
    return 1;
  }
  if (!access->has_value()) return 128 + signal;
  const int code = Agent(options, program, log_files, presence, alarm, **std::move(access), door).Run();
  log::SetSink({});
  return code;
}

}  // namespace mtrun::launcher

#include "launcher/agent.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <asio.hpp>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "launcher/agent_core.h"
#include "launcher/channel_server.h"
#include "launcher/error_file.h"
#include "launcher/etcd_probe.h"
#include "launcher/failure_report.h"
#include "launcher/guardian.h"
#include "launcher/held_port.h"
#include "launcher/launch_plan.h"
#include "launcher/output_mux.h"
#include "launcher/preempt_file.h"
#include "launcher/presence.h"
#include "launcher/process_tree.h"
#include "launcher/standstill.h"
#include "launcher/store_forwarder.h"
#include "launcher/watching.h"
#include "launcher/worker_group.h"
#include "rendezvous/host.h"
#include "rendezvous/local_session.h"
#include "rendezvous/session_client.h"
#include "rendezvous/token.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kOutputPatience = std::chrono::seconds(1);
constexpr Duration kGoodbyePatience = std::chrono::seconds(1);
constexpr Duration kResolvePause = std::chrono::seconds(1);
constexpr Duration kEtcdPatience = std::chrono::seconds(1);

/// How this node takes part in the rendezvous.
struct Meeting {
  std::unique_ptr<rendezvous::Host> host;  // when it hosts
  std::string endpoint;                    // with its real port
  std::string address;                     // this node's, for peers
  PresencePort presence;                   // with several endpoints
  bool insecure = true;
  std::string token;
};

/// A stop signal that is pending or comes within `pause`; 0 for none.
int StopSignalWithin(Duration pause) {
  const sigset_t signals = StopSignals();
  const timespec time = {static_cast<time_t>(pause.count() / 1'000'000'000),
                         static_cast<long>(pause.count() % 1'000'000'000)};
  const int signal = sigtimedwait(&signals, nullptr, &time);
  return signal > 0 ? signal : 0;
}

absl::StatusOr<Meeting> Meet(const Options& options) {
  Meeting meeting;
  meeting.endpoint = options.endpoint;
  meeting.address = options.local_addr;
  if (options.standalone) return meeting;  // nobody else will come
  MT_ASSIGN_OR_RETURN(const Endpoint wanted, ParseEndpoint(options.endpoint));
  if (options.may_be_etcd && EtcdAnswers(wanted, kEtcdPatience)) {
    return absl::FailedPreconditionError(
        absl::StrCat("an etcd server answers at ", options.endpoint,
                     "; mtrun needs none and cannot use it: give --rdzv_backend "
                     "c10d --rdzv_endpoint HOST:29400 instead, where HOST is one of the nodes"));
  }
  meeting.insecure = options.insecure || IsLoopback(wanted.host);
  if (options.insecure && !IsLoopback(wanted.host))
    log::Warning("--insecure: anyone who reaches ", options.endpoint, " may join this job");
  if (!meeting.insecure) {
    MT_ASSIGN_OR_RETURN(meeting.token, rendezvous::LoadToken());
  }
  std::vector<std::string> endpoints = options.job.endpoints;
  if (endpoints.empty()) endpoints = {options.endpoint};
  for (const std::string& endpoint : endpoints) {  // one service per agent at most
    if (meeting.host) break;
    MT_ASSIGN_OR_RETURN(meeting.host, rendezvous::StartIfHost({endpoint, options.is_host, meeting.insecure,
                                                               meeting.token, options.job.job_id}));
  }
  if (options.job.endpoints.size() > 1) {
    MT_ASSIGN_OR_RETURN(meeting.presence, PresencePort::Open());
  }
  meeting.endpoint = meeting.host ? meeting.host->endpoint() : options.endpoint;
  if (meeting.host) {
    log::Info("hosting the rendezvous at ", meeting.endpoint, ": ", meeting.host->reason());
  } else {
    log::Info("the rendezvous is at ", meeting.endpoint, ", hosted elsewhere");
  }
  return meeting;
}

class Agent {
 public:
  Agent(const Options& options, const Program& program, LogFiles& log_files, Meeting meeting)
      : options_(options),
        program_(program),
        log_files_(log_files),
        meeting_(std::move(meeting)),
        offer_(MakeOffer()),
        core_(CoreConfig(), MonotonicNow()),
        signals_(io_),
        deadline_(io_),
        stamp_(io_),
        preemption_(io_, options_.preempt_file, [this] { Feed(SignalReceived{SIGTERM}); }),
        output_(STDOUT_FILENO, STDERR_FILENO),
        workers_(WorkerGroup::Make(
            io_, output_,
            {[this](const WorkerExited& e) { OnExited(e); }, [this](const WorkerGone& e) { Feed(e); }})) {
    // From here on mtrun's own lines queue up with the workers': a terminal that stands still stops no
    // decision.
    log::SetSink([console = output_.console()](std::string line) { console->Say(std::move(line)); });
  }

  int Run() {
    const absl::Status started = Start();
    if (!started.ok()) {
      log::Error(started.message());
      return 1;
    }
    io_.run();
    session_.reset();  // before the service, so that nothing reconnects
    return exit_code_;
  }

 private:
  rendezvous::Offer MakeOffer() const {
    rendezvous::Offer offer;
    offer.host = HostName();
    offer.node_id = absl::StrFormat("%s-%d-%08x", offer.host, getpid(), RandomBits() & 0xFFFFFFFF);
    offer.address = meeting_.address;
    offer.workers = options_.workers;
    offer.presence_port = meeting_.presence.port();
    offer.node_rank = options_.node_rank;
    offer.role = options_.role;
    return offer;
  }

  AgentConfig CoreConfig() const {
    return {offer_,
            meeting_.endpoint,
            options_.job.max_restarts,
            options_.shutdown_timeout,
            options_.connect_timeout,
            options_.fence_timeout,
            options_.warm_up,
            options_.hang_notice,
            options_.hang_timeout};
  }

  absl::Status Start() {
    MT_RETURN_IF_ERROR(WatchSignals());
    MT_ASSIGN_OR_RETURN(
        channel_, ChannelServer::Start(io_, [this](int64_t connection, int local_rank, const auto& message) {
          OnWorkerMessage(connection, local_rank, message);
        }));
    const EnvironmentMap environment = CurrentEnvironment();
    MT_ASSIGN_OR_RETURN(watching_, StartWatching(io_, environment, options_.event_log, options_.job.job_id));
    launches_.emplace(options_, program_, log_files_, channel_->path(), watching_.timer_file());
    if (const auto found = environment.find("TORCHELASTIC_ERROR_FILE"); found != environment.end())
      error_file_ = found->second;
    if (!log_files_.folder().empty()) log::Info("the workers' output is kept in ", log_files_.folder());
    MT_RETURN_IF_ERROR(preemption_.Watch());
    StartSession();
    ArmDeadline();
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
    if (signal == SIGCHLD) return workers_->OnChildSignal();
    if (signal == ParentGoneSignal()) {
      log::Error("mtrun's guardian was killed: stopping everything");
      workers_->Clear();
      _exit(128 + SIGKILL);
    }
    if (IsForwarded(signal)) {
      log::Info("passing ", SignalName(signal), " on to the workers");
      return workers_->Signal(signal);
    }
    Feed(SignalReceived{signal});
  }

  void StartSession() {
    rendezvous::SessionOptions session;
    session.endpoint = meeting_.endpoint;
    session.endpoints = options_.job.endpoints;
    session.node_id = offer_.node_id;
    session.job = options_.job;
    session.reconnect_timeout = options_.reconnect_timeout;
    session.insecure = meeting_.insecure;
    session.token = meeting_.token;
    const auto post = [this](Event event) {
      asio::post(io_, [this, event = std::move(event)] { Feed(event); });
    };
    rendezvous::SessionClient::Handler handler;
    handler.event = [this](const rendezvous::ServiceEvent& event) {
      asio::post(io_, [this, event] { OnServiceEvent(event); });
    };
    handler.connected = [this] { asio::post(io_, [this] { OnConnected(); }); };
    handler.disconnected = [post](const std::string& why) { post(SessionDisconnected{why}); };
    handler.failed = [post](absl::Status status) { post(SessionFailed{std::string(status.message())}); };
    session_ = options_.standalone ? rendezvous::StartLocalSession(session, handler)
                                   : rendezvous::SessionClient::Start(session, handler);
    Stamp();
  }

  void Stamp() {
    session_->StampMainLoop();
    stamp_.expires_after(options_.job.heartbeat_interval / 2);
    stamp_.async_wait([this](std::error_code error) {
      if (!error) Stamp();
    });
  }

  void OnConnected() {
    Feed(SessionConnected{});
    for (const rendezvous::AgentEvent& question : store_.Open()) session_->Send(question);
  }

  void OnServiceEvent(const rendezvous::ServiceEvent& event) {
    if (const auto* reply = std::get_if<rendezvous::StoreReply>(&event)) {
      if (const auto answer = store_.Answer(*reply))
        channel_->SendToConnection(answer->first, answer->second);
      return;
    }
    Feed(event);
  }

  void OnWorkerMessage(int64_t connection, int local_rank, const channel::WorkerMessage& message) {
    if (!StoreForwarder::IsRequest(message)) return Feed(WorkerSaid{local_rank, message});
    const rendezvous::Generation current =
        core_.assignment() ? core_.assignment()->generation : rendezvous::Generation{};
    if (!StoreForwarder::Fits(message, current)) {
      if (const auto refusal = StoreForwarder::Refuse(message))
        channel_->SendToConnection(connection, *refusal);
    } else if (const auto question = store_.Ask(connection, message, current)) {
      session_->Send(*question);
    }
  }

  void OnExited(const WorkerExited& event) {
    channel_->ReadRest(event.local_rank);  // "done" and "leaving" say what the exit means
    Feed(event);
  }

  void Feed(const Event& event) {
    watching_.events.Write(event);
    for (const Effect& effect : core_.Step(event, MonotonicNow())) {
      watching_.events.Write(effect);
      std::visit([this](const auto& e) { Perform(e); }, effect);
    }
    ArmDeadline();
  }

  void ArmDeadline() {
    const std::optional<TimePoint> when = core_.NextDeadline();
    if (!when) {
      deadline_.cancel();
      return;
    }
    deadline_.expires_at(*when);
    deadline_.async_wait([this](std::error_code error) {
      if (!error) Feed(Tick{});
    });
  }

  void Perform(const SendOffer& effect) {
    rendezvous::Offer offer = effect.offer;
    if (effect.fresh) {
      absl::StatusOr<HeldPort> held = HeldPort::Open(options_.master_port);
      if (!held.ok()) return Feed(SessionFailed{std::string(held.status().message())});
      held_port_ = *std::move(held);
    }
    offer.master_port = held_port_.port();
    session_->Send(rendezvous::OfferSent{offer});
  }

  void Perform(const SendToService& effect) { session_->Send(effect.event); }

  void Perform(const StartWorkers& effect) {
    if (!effect.ahead && (effect.member != 0 || !options_.hold_port)) held_port_.Release();
    if (!workers_->empty()) {  // the others live on
      for (const int local_rank : effect.local_ranks) {
        channel_->Disconnect(local_rank);
        workers_->Replace(local_rank, MakeLaunch(effect, local_rank));
      }
      return;
    }
    std::vector<WorkerLaunch> launches;
    for (const int local_rank : effect.local_ranks) launches.push_back(MakeLaunch(effect, local_rank));
    workers_->Start(std::move(launches));
  }

  WorkerLaunch MakeLaunch(const StartWorkers& effect, int local_rank) {
    return launches_->For(effect.assignment, effect.member, local_rank);
  }

  void Perform(const SignalWorkers& effect) { workers_->Signal(effect.signal); }

  void Perform(const SignalWorker& effect) { workers_->SignalOne(effect.local_rank, effect.signal); }

  void Perform(const SendToWorker& effect) { channel_->SendToRank(effect.local_rank, effect.message); }

  void Perform(const InspectWorker& effect) {
    log::Warning(effect.text, "; ", DescribeStandstill("", workers_->PidOf(effect.local_rank)));
  }

  void Perform(const ShowNote& effect) { session_->SetNote(effect.text); }

  void Perform(const CleanUp&) {
    output_.CloseAll(kOutputPatience);
    workers_->Clear();
    channel_->DisconnectAll();
    store_.Clear();
    held_port_.Release();
  }

  void Perform(const WriteLog& effect) { log::Write(effect.level, effect.text); }

  void Perform(const Exit& effect) {
    exit_code_ = effect.code;
    if (effect.outcome) {
      output_.console()->Say(FailureReport(program_.name, *effect.outcome));
      if (!error_file_.empty()) {
        const absl::Status written = WriteOwnErrorFile(error_file_, *effect.outcome);
        if (!written.ok()) log::Warning(written.message());
      }
    }
    if (!session_->Flush(kGoodbyePatience)) log::Debug("the service did not acknowledge everything");
    io_.stop();
  }

  // Constant after construction.
  const Options& options_;
  const Program& program_;
  LogFiles& log_files_;
  const Meeting meeting_;
  const rendezvous::Offer offer_;

  // Loop thread only.
  asio::io_context io_;
  AgentCore core_;
  Watching watching_;
  std::optional<LaunchPlan> launches_;
  std::string error_file_;  // TORCHELASTIC_ERROR_FILE of mtrun itself
  StoreForwarder store_;
  HeldPort held_port_;
  asio::posix::stream_descriptor signals_;
  asio::steady_timer deadline_, stamp_;
  PreemptFile preemption_;
  OutputMux output_;
  std::unique_ptr<ChannelServer> channel_;
  std::unique_ptr<WorkerGroup> workers_;
  std::unique_ptr<rendezvous::SessionClient> session_;
  int exit_code_ = 1;
};

}  // namespace

int RunAgent(const Options& options, const Program& program, LogFiles& log_files) {
  absl::StatusOr<Meeting> meeting = Meet(options);
  if (!meeting.ok()) {
    log::Error(meeting.status().message());
    return 1;
  }
  // A name may appear in DNS only later; nothing to do but to try again until then, or until somebody stops
  // us.
  const TimePoint give_up = MonotonicNow() + options.job.join_timeout;
  while (meeting->address.empty()) {
    const Endpoint endpoint = *ParseEndpoint(meeting->endpoint);
    absl::StatusOr<std::string> address = AddressTowards(endpoint, meeting->host != nullptr);
    if (address.ok()) {
      meeting->address = *std::move(address);
      break;
    }
    if (MonotonicNow() >= give_up) {
      log::Error(address.status().message());
      return 1;
    }
    log::Warning(address.status().message(), "; trying again");
    if (const int signal = StopSignalWithin(kResolvePause); signal != 0) return 128 + signal;
  }
  const int code = Agent(options, program, log_files, *std::move(meeting)).Run();
  log::SetSink({});
  return code;
}

}  // namespace mtrun::launcher

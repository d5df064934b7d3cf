#include "launcher/ssh/ssh_loop.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log.h"
#include "base/signal_name.h"
#include "launcher/output/console.h"
#include "launcher/ssh/connection.h"
#include "launcher/ssh/host_streams.h"
#include "launcher/workers/guardian.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kChunk = 64 << 10, kMaxSaid = 16 << 10;
constexpr int kLastChunks = 64;  // for an exiting ssh: more than its pipes can hold
// A host's last lines may arrive after its status; a process left running keeps the streams open.
constexpr Duration kLastLines = std::chrono::seconds(1);
// An ssh with more data than this still fills its pipes; it holds 2 MiB at most.
constexpr size_t kBacklog = kChunk / 2, kMaxLast = kLastChunks * kChunk;

std::string PrefixOf(const SshLaunch& launch, size_t host) {
  return launch.hosts.size() == 1 ? "" : absl::StrCat(launch.hosts[host].name, ": ");
}

std::string HowItEnded(const ExitStatus& status) {
  if (status.signal != 0) return absl::StrCat("ssh was ended by ", SignalName(status.signal));
  return absl::StrCat("ssh ended with status ", status.code);
}

class SshLoop {
 public:
  SshLoop(SshLaunch launch, RemoteJob::Config config, EnvironmentMap environment, UniqueFd signals)
      : launch_(std::move(launch)),
        environment_(std::move(environment)),
        signals_(std::move(signals)),
        console_(std::make_shared<Console>(STDOUT_FILENO, STDERR_FILENO, StopSignalPending)),
        boxes_(std::make_shared<std::set<std::string>>()),
        job_(std::move(config)),
        remotes_(launch_.hosts.size()),
        next_beat_(MonotonicNow() + kBeatInterval) {}

  /// Returns the job's exit status.
  int Run() {
    log::SetSink([console = console_](std::string line) { console->Say(std::move(line)); });
    Perform(job_.Start(MonotonicNow()));
    while (!exit_status_) Poll();
    remotes_.clear();
    console_->FlushAll();
    log::SetSink({});
    return *exit_status_;
  }

 private:
  struct Remote {
    std::unique_ptr<Connection> connection;  // null: none
    HostOutput output;
    std::unique_ptr<HostStreams> streams;
    bool greeted = false;
    std::string said;  // standard error before the greeting
    std::optional<int> end_status;
    // Valid if end_status is set:
    TimePoint cut_at;
    size_t last_bytes = 0;  // bytes received since then
  };

  void Perform(RemoteJob::Effects effects) {
    const bool performing = !effects_.empty();
    std::move(effects.begin(), effects.end(), std::back_inserter(effects_));
    if (performing) return;
    while (!effects_.empty()) {
      PerformOne(effects_.front());
      effects_.pop_front();
    }
  }

  void PerformOne(const RemoteEffect& effect) {
    Remote& remote = remotes_[effect.host];
    switch (effect.kind) {
      case RemoteEffect::Kind::kConnect:
        return Connect(effect.host);
      case RemoteEffect::Kind::kLaunch:
        return Launch(effect.host, effect.text);
      case RemoteEffect::Kind::kSignal:
        return remote.connection->Send(EncodeSignal(effect.number));
      case RemoteEffect::Kind::kDisconnect:
        if (remote.streams) remote.streams->Finish(MonotonicNow());
        remote = Remote();
        return;
      case RemoteEffect::Kind::kInform:
        return log::Info(effect.text);
      case RemoteEffect::Kind::kWarn:
        return log::Warning(effect.text);
      case RemoteEffect::Kind::kFail:
        return log::Error(effect.text);
      case RemoteEffect::Kind::kExit:
        exit_status_ = effect.number;
        return;
    }
  }

  void Connect(size_t host) {
    Remote& remote = remotes_[host] = Remote();
    remote.output = HostOutput(absl::StrFormat("%016x%016x", RandomBits(), RandomBits()));
    remote.streams =
        std::make_unique<HostStreams>(PrefixOf(launch_, host), console_, FailureBoxes(boxes_), host);
    auto opened = Connection::Open(SshCommand(launch_.ssh, launch_.hosts[host], launch_.mtrun), environment_);
    if (!opened.ok())
      return Perform(job_.OnLost(host, std::string(opened.status().message()), MonotonicNow()));
    remote.connection = *std::move(opened);
  }

  void Launch(size_t host, const std::string& endpoint) {
    Order order = OrderFor(launch_, host, endpoint);
    order.nonce = remotes_[host].output.nonce();
    remotes_[host].connection->Send(Encode(order));
    if (std::exchange(said_endpoint_, true)) return;
    for (const DerivedSetting& setting : order.settings) {
      if (setting.name == "rdzv_endpoint")
        log::Info("the hosts meet at ", setting.value, " (--rdzv_endpoint changes this)");
    }
  }

  int PatienceMs() const {
    TimePoint until = next_beat_;
    if (const auto next = job_.next_time()) until = std::min(until, *next);
    for (const Remote& remote : remotes_) {
      if (remote.end_status) until = std::min(until, remote.cut_at);
      if (!remote.streams) continue;
      if (const auto due = remote.streams->Due()) until = std::min(until, *due);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - MonotonicNow()).count();
    return static_cast<int>(std::max<int64_t>(left, 0));
  }

  void Poll() {
    std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}};
    std::vector<size_t> hosts;
    for (size_t host = 0; host < remotes_.size(); ++host) {
      if (!remotes_[host].connection) continue;
      remotes_[host].connection->AddTo(&polled);
      hosts.push_back(host);
    }
    if (poll(polled.data(), polled.size(), PatienceMs()) < 0) return;  // EINTR after SIGSTOP and SIGCONT
    OnSignals();
    for (size_t i = 0; i < hosts.size(); ++i) {
      const pollfd* of_host = &polled[1 + i * Connection::kPolled];
      Remote& remote = remotes_[hosts[i]];
      // An event of another host may have closed it.
      if (!remote.connection) continue;
      if (of_host[0].revents != 0) remote.connection->SendMore();
      const bool late = remote.end_status && MonotonicNow() >= remote.cut_at;
      const bool ended = remote.connection->ended().has_value();
      if (late || ended || of_host[1].revents != 0 || of_host[2].revents != 0)
        OnConnection(hosts[i], late, ended);
    }
    for (const Remote& remote : remotes_)
      if (remote.streams) remote.streams->OnTime(MonotonicNow());
    if (MonotonicNow() >= next_beat_) Beat();
    Perform(job_.OnTime(MonotonicNow()));
  }

  void OnSignals() {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      Perform(job_.OnSignal(signal, /*stops=*/!IsForwarded(signal), MonotonicNow()));
    }
  }

  /// `late`: its time after the status of its mtrun has elapsed. `process_ended`: the ssh has exited.
  void OnConnection(size_t host, bool late, bool process_ended) {
    Remote& remote = remotes_[host];
    const size_t before = remote.last_bytes;
    // A running host is read in small parts, not to delay the others. Processes left there may write forever.
    const int most = late || process_ended ? kLastChunks : 1;
    bool more = true;
    for (int i = 0; i < most && more; ++i) {
      const bool output = ReadOutput(host), error = ReadError(host);
      more = output || error;
      if (!late || process_ended || remote.last_bytes - before < kBacklog || remote.last_bytes >= kMaxLast)
        continue;
      // A slow console used up the time, and the ssh still holds output from before the exit.
      remote.cut_at = MonotonicNow() + kLastLines;
      return;
    }
    if ((late || process_ended) && remote.connection) Close(host, more);
  }

  std::string Take(Remote& remote, int which) {
    std::string bytes = remote.connection->Take(which, kChunk);
    if (remote.end_status) remote.last_bytes += bytes.size();
    return bytes;
  }

  bool ReadOutput(size_t host) {
    Remote& remote = remotes_[host];
    if (!remote.connection) return false;
    const std::string bytes = Take(remote, 0);
    const HostOutput::Piece piece = remote.output.Feed(bytes);
    remote.streams->Show(0, piece.output, MonotonicNow());
    if (piece.end_status) {
      remote.end_status = piece.end_status;
      remote.cut_at = MonotonicNow() + kLastLines;
    }
    if (piece.greeting) {
      remote.greeted = true;
      Perform(job_.OnGreeting(host, *piece.greeting, MonotonicNow()));
    }
    return !bytes.empty();
  }

  bool ReadError(size_t host) {
    Remote& remote = remotes_[host];
    if (!remote.connection) return false;
    const std::string bytes = Take(remote, 1);
    if (remote.greeted) {
      remote.streams->Show(1, bytes, MonotonicNow());
    } else {
      remote.said += bytes;
      if (remote.said.size() > kMaxSaid) remote.said.erase(0, remote.said.size() - kMaxSaid);
    }
    return !bytes.empty();
  }

  /// `cut`: there is more output.
  void Close(size_t host, bool cut) {
    Remote remote = std::exchange(remotes_[host], Remote());
    remote.streams->Show(0, remote.output.Flush(), MonotonicNow());
    remote.streams->Finish(MonotonicNow());
    if (cut) {
      console_->Lines(1, absl::StrCat("mtrun: the rest of the output of ", launch_.hosts[host].name,
                                      " is missing here: its ", remote.end_status ? "mtrun" : "ssh",
                                      " has ended, but another process still writes\n"));
    }
    const ExitStatus status = remote.connection->ended().value_or(ExitStatus());
    const TimePoint now = MonotonicNow();
    if (remote.end_status) return Perform(job_.OnEnded(host, *remote.end_status, now));
    const bool silent = remote.greeted || status.signal != 0;
    Perform(job_.OnLost(host,
                        silent ? HowItEnded(status)
                               : WhyUnreachable(launch_.hosts[host], launch_.mtrun, remote.said, status.code),
                        now));
  }

  void Beat() {
    next_beat_ = MonotonicNow() + kBeatInterval;
    for (Remote& remote : remotes_) {
      if (remote.connection && remote.greeted) remote.connection->Send(EncodeBeat());
    }
  }

  const SshLaunch launch_;
  const EnvironmentMap environment_;
  const UniqueFd signals_;
  const std::shared_ptr<Console> console_;
  const std::shared_ptr<std::set<std::string>> boxes_;  // boxes shown so far
  RemoteJob job_;
  std::vector<Remote> remotes_;
  std::deque<RemoteEffect> effects_;  // queue; performing one effect may append others
  TimePoint next_beat_;
  bool said_endpoint_ = false;
  std::optional<int> exit_status_;
};

}  // namespace

int RunSshLoop(SshLaunch launch, RemoteJob::Config config, EnvironmentMap environment, UniqueFd signals) {
  return SshLoop(std::move(launch), std::move(config), std::move(environment), std::move(signals)).Run();
}

}  // namespace mtrun::launcher

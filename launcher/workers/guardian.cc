#include "launcher/workers/guardian.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/signal_name.h"
#include "launcher/workers/command_line.h"
#include "launcher/workers/process_tree.h"

namespace mtrun::launcher {
namespace {

// A process in an uninterruptible kernel state cannot be waited for; leaving it is better than hanging here.
constexpr Duration kSweepPatience = std::chrono::seconds(5);
constexpr timespec kSweepPause = {0, 5'000'000};
constexpr int kKillRounds = 20;  // a process may fork while its siblings are killed
// Connections served before signals are checked again.
constexpr int kGreetedATurn = 32;
// A connection that cannot be accepted keeps the port readable: a pause keeps the loop from spinning.
constexpr int kGreetPauseMs = 100;

SignalPlan& Plan() {
  static SignalPlan plan = DefaultSignals();
  return plan;
}

/// Kills and reaps until no child is left: orphaned descendants become children of this process.
void Sweep() {
  const TimePoint give_up = MonotonicNow() + kSweepPatience;
  while (MonotonicNow() < give_up) {
    KillDescendants(getpid());
    pid_t reaped = 0;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    nanosleep(&kSweepPause, nullptr);
  }
}

/// Reaps all children that have exited; returns true if `child` is among them.
bool Reap(pid_t child, int* status) {
  bool ended = false;
  int one = 0;
  for (pid_t pid; (pid = waitpid(-1, &one, WNOHANG)) > 0;) {
    if (pid != child) continue;
    *status = one;
    ended = true;
  }
  return ended;
}

[[noreturn]] void EndLike(int status, const char* who, pid_t child) {
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  log::Error(who, " (pid ", child, ") was killed by ", SignalName(WTERMSIG(status)),
             "; everything it had started is stopped");
  _exit(128 + WTERMSIG(status));
}

/// Returns whether ParentGoneSignal() is pending.
bool ParentIsGone() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, ParentGoneSignal()) == 1;
}

/// Passes signals down and the status up, and leaves no process alive.
void OnSignal(int signal, pid_t child, const char* who) {
  int status = 0;
  if (signal == SIGCHLD) {
    if (!Reap(child, &status)) return;
    // After a success the workers' child processes may stay; an agent that stops or fails kills its own.
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || ParentIsGone()) Sweep();
    EndLike(status, who, child);
  }
  if (signal == ParentGoneSignal()) {
    Sweep();
    _exit(128 + SIGKILL);
  }
  kill(child, signal);
}

/// Kills the workers of an agent that may be suspended. It learns their status when it continues.
void KillWorkers(pid_t agent, const LeaseKills& kills) {
  const auto note = [&](const ProcessInfo& process) {
    if (process.parent == agent) kills.Add(process.pid);
  };
  int rounds = 0;
  while (KillDescendants(agent, note) > 0 && ++rounds < kKillRounds) nanosleep(&kSweepPause, nullptr);
}

/// Main loop of front and guardian. Signals come first in each turn, so that connections cannot delay them.
[[noreturn]] void Guard(pid_t child, const char* who, const UniqueFd& signals, PresencePort& presence,
                        const LeaseAlarm& alarm) {
  bool greets = true;
  while (true) {
    pollfd ready[] = {
        {signals.get(), POLLIN, 0}, {alarm.fd(), POLLIN, 0}, {greets ? presence.fd() : -1, POLLIN, 0}};
    if (poll(ready, std::size(ready), greets ? -1 : kGreetPauseMs) < 0)
      continue;  // EINTR after SIGSTOP and SIGCONT
    signalfd_siginfo info;
    while (read(signals.get(), &info, sizeof info) == sizeof info)
      OnSignal(static_cast<int>(info.ssi_signo), child, who);
    if (alarm.TakeRing()) KillWorkers(child, alarm.kills());
    greets = ready[2].revents == 0 || presence.Greet(kGreetedATurn);
  }
}

[[noreturn]] void EndWithoutChild(const char* child_is, const char* act) {
  log::Error("cannot start the ", child_is, ": ", act, ": ", std::strerror(errno));
  _exit(1);
}

/// Forks; the parent never returns. The child is signalled when its parent exits.
void Descend(const char* child_is, bool guards, PresencePort& presence, const LeaseAlarm& alarm) {
  const pid_t parent = getpid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t watched = WatchedSignals();
  const UniqueFd signals(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) EndWithoutChild(child_is, "watch signals");
  const pid_t child = fork();
  if (child < 0) EndWithoutChild(child_is, "fork");
  if (child > 0) {
    if (!guards) presence.Close();
    const LeaseAlarm none;
    Guard(child, child_is, signals, presence, guards ? alarm : none);
  }
  prctl(PR_SET_PDEATHSIG, ParentGoneSignal());
  if (getppid() != parent) _exit(128 + SIGKILL);
}

}  // namespace

void SetSignals(SignalPlan plan) {
  struct sigaction action;
  const bool hangup_ignored = sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  if (plan.stop_is_default && hangup_ignored) std::erase(plan.stop, SIGHUP);
  Plan() = std::move(plan);
}

int StopSignalWithin(Duration pause) {
  const sigset_t signals = StopSignals();
  const timespec time = {static_cast<time_t>(pause.count() / 1'000'000'000),
                         static_cast<long>(pause.count() % 1'000'000'000)};
  const int signal = sigtimedwait(&signals, nullptr, &time);
  return signal > 0 ? signal : 0;
}

bool StopSignalPending() {
  sigset_t pending;
  sigset_t ends = StopSignals();
  sigaddset(&ends, ParentGoneSignal());
  return sigpending(&pending) == 0 && sigandset(&pending, &pending, &ends) == 0 && !sigisemptyset(&pending);
}

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : Plan().stop) sigaddset(&set, signal);
  return set;
}

bool IsForwarded(int signal) {
  const std::vector<int>& forward = Plan().forward;
  return std::find(forward.begin(), forward.end(), signal) != forward.end();
}

bool AsksForStacks(int signal) {
  return signal == SIGUSR2 && !IsForwarded(signal) &&
         std::find(Plan().stop.begin(), Plan().stop.end(), signal) == Plan().stop.end();
}

sigset_t WatchedSignals() {
  sigset_t set = StopSignals();
  sigaddset(&set, SIGUSR2);
  for (const int signal : Plan().forward) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, ParentGoneSignal());
  return set;
}

int ParentGoneSignal() { return SIGRTMIN + 5; }

void BecomeGuarded(PresencePort& presence, const LeaseAlarm& alarm) {
  const sigset_t watched = WatchedSignals();
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  // If our parent ignored SIGCHLD, the kernel would reap our children.
  signal(SIGCHLD, SIG_DFL);
  Descend("guardian", /*guards=*/false, presence, alarm);
  prctl(PR_SET_NAME, "mt-guardian");
  SetCommandLine("mt-guardian");
  // A process group of their own: a terminal's signal to the front's group arrives once, through the front.
  setpgid(0, 0);
  signal(SIGTTOU, SIG_IGN);
  Descend("agent", /*guards=*/true, presence, alarm);
  prctl(PR_SET_NAME, "mtrun");
  SetCommandLine("mt-agent");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

}  // namespace mtrun::launcher

#include "trainers/membership/drain.h"

#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>

namespace mtrun::trainers {
namespace {

std::atomic<int> drain_signal{0};
std::array<std::atomic<int64_t>, NSIG> first_ms{};  // first arrival of each; 0: none
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "a signal handler may touch nothing else");

/// Returns milliseconds of the monotonic clock; never 0.
int64_t NowMs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1 + now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

void OnSignal(int signal) {
  const int64_t now = NowMs();
  int64_t first = 0;
  if (first_ms[static_cast<size_t>(signal)].compare_exchange_strong(first, now)) {
    drain_signal.store(signal, std::memory_order_relaxed);
  } else if (now - first >= kSignalEchoMs) {
    // The signal is blocked until this handler returns, and then ends the process.
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
}

}  // namespace

void CatchDrainSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;  // reads and waits continue
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
}

int DrainSignal() { return drain_signal.load(std::memory_order_relaxed); }

std::optional<TimePoint> DrainSignalAt() {
  std::optional<TimePoint> first;
  for (const std::atomic<int64_t>& each : first_ms) {
    if (const int64_t ms = each.load(std::memory_order_relaxed); ms != 0)
      first = Earlier(first, TimePoint(std::chrono::milliseconds(ms)));
  }
  return first;
}

}  // namespace mtrun::trainers

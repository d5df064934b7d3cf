#include "trainers/membership/drain.h"

#include <string.h>

#include <atomic>
#include <csignal>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

std::atomic<int> drain_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch nothing else");

void OnSignal(int signal) { drain_signal.store(signal, std::memory_order_relaxed); }

}  // namespace

void CatchDrainSignals() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  // The second one kills: a person who asks twice means it. Reads and waits go on after the first.
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
}

int DrainSignal() { return drain_signal.load(std::memory_order_relaxed); }

}  // namespace mtrun::trainers

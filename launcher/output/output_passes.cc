#include "launcher/output/output_passes.h"

#include <algorithm>
#include <utility>

namespace mtrun::launcher {
namespace {

constexpr Duration kLookForProgress = std::chrono::milliseconds(50);

}  // namespace

uint64_t OutputPasses::Request(const PassWork& work) {
  const MutexLock lock(mu_);
  work_.close_up_to = std::max(work_.close_up_to, work.close_up_to);
  work_.keep = work_.keep || work.keep;
  work_.stop = work_.stop || work.stop;
  return ++wanted_;
}

bool OutputPasses::Await(uint64_t number, Duration timeout, const std::function<uint64_t()>& progress,
                         const std::function<bool()>& hurry) {
  const MutexLock lock(mu_);
  uint64_t seen = progress ? progress() : 0;
  TimePoint deadline = MonotonicNow() + timeout;
  while (done_ < number) {
    ended_.WaitUntil(mu_, progress ? std::min(deadline, MonotonicNow() + kLookForProgress) : deadline);
    const uint64_t now = progress ? progress() : 0;
    if (now != std::exchange(seen, now)) deadline = MonotonicNow() + timeout;
    if (MonotonicNow() >= deadline || (hurry && hurry())) return done_ >= number;
  }
  return true;
}

OutputPasses::Pass OutputPasses::Begin() {
  const MutexLock lock(mu_);
  const Pass pass = {work_, wanted_ != done_, wanted_};
  work_.close_up_to = 0;
  work_.keep = false;
  return pass;
}

void OutputPasses::End(const Pass& pass) {
  const MutexLock lock(mu_);
  done_ = pass.number;
  ended_.NotifyAll();
}

}  // namespace mtrun::launcher

#include "trainers/run/rules/test_throttle.h"

#include <chrono>
#include <thread>

namespace mtrun::trainers {

void DelayForTest(const Membership& membership, TimePoint until) {
  while (MonotonicNow() < until && !membership.generation_is_over())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace mtrun::trainers

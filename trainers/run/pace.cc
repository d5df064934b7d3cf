#include "trainers/run/pace.h"

#include <chrono>
#include <thread>

namespace mtrun::trainers {

void Pace(const Membership& membership, TimePoint until) {
  while (MonotonicNow() < until && !membership.generation_is_over())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace mtrun::trainers

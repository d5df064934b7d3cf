#include "trainers/collectives/flight_record.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace mtrun::collectives {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the seconds from `now` to `then`, rounded to microseconds.
double Before(TimePoint then, TimePoint now) { return std::round(1e6 * ToSeconds(then - now)) / 1e6; }

}  // namespace

FlightRecord& FlightRecord::OfProcess() {
  static FlightRecord* const record = new FlightRecord;  // never freed: threads may outlive main
  return *record;
}

uint64_t FlightRecord::Began(const char* what, int64_t bytes, TimePoint now) {
  const MutexLock lock(mutex_);
  collectives_.push_back({.number = ++last_,
                          .what = what,
                          .bytes = bytes,
                          .began = now,
                          .ended = {},
                          .done = false,
                          .error = {}});
  if (collectives_.size() > kKept) collectives_.pop_front();
  return last_;
}

void FlightRecord::Ended(uint64_t number, const absl::Status& status, TimePoint now) {
  const MutexLock lock(mutex_);
  if (collectives_.empty() || number < collectives_.front().number) return;  // no longer kept
  Collective& collective = collectives_[number - collectives_.front().number];
  collective.ended = now;
  collective.done = true;
  if (!status.ok()) collective.error = std::string(status.message());
}

void FlightRecord::Add(const Step& step) {
  const MutexLock lock(mutex_);
  steps_.push_back(step);
  if (steps_.size() > kKept) steps_.pop_front();
}

std::string FlightRecord::Lines(TimePoint now) const {
  std::vector<std::pair<TimePoint, Json>> all;
  {
    const MutexLock lock(mutex_);
    for (const Collective& c : collectives_) {
      Json line = {
          {"collective", c.number}, {"what", c.what}, {"bytes", c.bytes}, {"began", Before(c.began, now)}};
      line["ended"] = c.done ? Json(Before(c.ended, now)) : Json(nullptr);
      if (!c.error.empty()) line["error"] = c.error;
      all.emplace_back(c.began, std::move(line));
    }
    for (const Step& s : steps_) {
      all.emplace_back(s.ended, Json{{"step", s.step},
                                     {"loss", s.loss},
                                     {"ended", Before(s.ended, now)},
                                     {"seconds", s.seconds},
                                     {"compute", s.compute},
                                     {"wait", s.wait},
                                     {"data", s.data}});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string lines;
  for (const auto& [time, line] : all)
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return lines;
}

}  // namespace mtrun::collectives

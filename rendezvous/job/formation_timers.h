// The timers of a formation: the last call of the first one, its join timeout, the limit for too few nodes,
// and the time of a retry. A value; not thread-safe.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class FormationTimers {
 public:
  explicit FormationTimers(const JobSettings& settings)
      : last_call_(std::max(settings.last_call, settings.cold_start_wait)),
        join_timeout_(settings.join_timeout),
        min_nodes_timeout_(settings.min_nodes_timeout),
        min_nodes_(static_cast<size_t>(settings.min_nodes)) {}

  /// Notes an offer: the join timeout starts at the first one.
  void OnOffer(TimePoint now);
  /// Notes how many nodes are ready for the first generation. If they suffice, the last call starts.
  void OnReady(size_t ready, TimePoint now);
  /// Notes how many nodes are left of a job that has run. If they are too few, min_nodes_timeout starts.
  void OnNodes(size_t nodes, TimePoint now);
  /// Notes that the formation was put off until `at`, if time alone can change that.
  void Retry(std::optional<TimePoint> at) { form_at_ = at; }
  /// Stops the timers, because a generation runs or the job ends.
  void Stop();

  std::optional<TimePoint> last_call_ends() const { return last_call_ends_; }
  bool JoinTimedOut(TimePoint now) const { return join_ends_ && now >= *join_ends_; }
  bool HoldTimedOut(TimePoint now) const { return hold_ends_ && now >= *hold_ends_; }
  /// Returns when time may change something. `first`: no generation is known yet.
  std::optional<TimePoint> NextDeadline(bool first) const;

  std::string Describe(bool first, TimePoint now) const;
  bool operator==(const FormationTimers&) const = default;

 private:
  // Constant after construction.
  Duration last_call_, join_timeout_, min_nodes_timeout_;
  size_t min_nodes_;

  std::optional<TimePoint> last_call_ends_, join_ends_, form_at_;
  std::optional<TimePoint> hold_ends_;  // set if too few nodes are left and there is a min_nodes_timeout
};

}  // namespace mtrun::rendezvous

// Reports ranks whose host accepts no connection while a group connects. Used on the connecting thread.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/collectives/link.h"

namespace mtrun::collectives {

class Unreached {
 public:
  /// Limit of reported ranks, because an unreachable node can have very many.
  static constexpr size_t kMaxTold = 16;

  /// `tell` reports a rank; may be empty.
  explicit Unreached(std::function<void(int rank)> tell) : tell_(std::move(tell)) {}

  void Begin(TimePoint notice_at) { notice_at_ = notice_at; }
  /// Returns the time until Look is due, in whole milliseconds; nothing before Begin and after Look.
  std::optional<std::chrono::milliseconds> DueIn(TimePoint now) const;
  /// If it is due, reports each dialed rank that accepted no connection at any of its addresses.
  void Look(const std::list<Link>& links, const std::set<int>& connected, TimePoint now);
  /// Handles a failed dial. Reports the rank if the network is the cause. If its host refused the connection,
  /// it is reachable and the peer has ended.
  void OnFailed(int rank, const absl::Status& why);

 private:
  void Tell(int rank);

  const std::function<void(int)> tell_;
  std::optional<TimePoint> notice_at_;
  std::set<int> told_;
};

}  // namespace mtrun::collectives

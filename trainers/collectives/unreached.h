// Ranks whose host takes no connection while a group connects: who is told of them, and when. Used on the
// thread that connects.
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
  /// At most so many ranks are told of: those of a node that is cut off may be very many.
  static constexpr size_t kMaxTold = 16;

  /// `tell`: may be empty.
  explicit Unreached(std::function<void(int rank)> tell) : tell_(std::move(tell)) {}

  void Begin(TimePoint notice_at) { notice_at_ = notice_at; }
  /// When Look is due, in whole milliseconds from `now`; nothing once it was.
  std::optional<std::chrono::milliseconds> DueIn(TimePoint now) const;
  /// Once it is due, tells of each rank that was dialed and at whose addresses no connection has come about.
  void Look(const std::list<Link>& links, const std::set<int>& connected, TimePoint now);
  /// A rank cannot be dialed. Tells of it if the network says so: a refusal is its host's own word, and the
  /// peer has ended.
  void OnFailed(int rank, const absl::Status& why);

 private:
  void Tell(int rank);

  const std::function<void(int)> tell_;
  std::optional<TimePoint> notice_at_;
  std::set<int> told_;
};

}  // namespace mtrun::collectives

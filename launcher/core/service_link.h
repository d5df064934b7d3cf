// This node's contact with the rendezvous service, as far as is known: whether it is there, and how long
// others are sure to wait for this node when it is not. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace mtrun::launcher {

class ServiceLink {
 public:
  /// `join_deadline`: for the first connection.
  explicit ServiceLink(TimePoint join_deadline) : join_deadline_(join_deadline) {}

  /// True for the first connection.
  bool Connected();
  void Disconnected() { connected_ = false; }
  bool connected() const { return connected_; }
  /// The service has heard this node. True when the lease had ended.
  bool Leased(TimePoint ends);

  const std::optional<TimePoint>& join_deadline() const { return join_deadline_; }
  /// Nothing where no lease was given, and once its end was taken.
  const std::optional<TimePoint>& lease_ends() const { return lease_ends_; }
  bool JoinTimedOut(TimePoint now) const { return join_deadline_ && now >= *join_deadline_; }
  /// The lease has ended. Said once.
  bool TakeLeaseEnd(TimePoint now);

  std::string Describe() const;
  bool operator==(const ServiceLink&) const = default;

 private:
  bool connected_ = false;
  std::optional<TimePoint> join_deadline_, lease_ends_;
  bool ended_ = false;
};

}  // namespace mtrun::launcher

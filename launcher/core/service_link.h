// This node's contact with the rendezvous service, as far as is known: whether it is there, and what follows
// when it is not. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace mtrun::launcher {

class ServiceLink {
 public:
  /// `join_deadline`: for the first connection. Zero `fence_timeout`: workers outlive any silence.
  ServiceLink(TimePoint join_deadline, Duration fence_timeout)
      : join_deadline_(join_deadline), fence_timeout_(fence_timeout) {}

  /// True for the first connection.
  bool Connected();
  void Disconnected(TimePoint now);
  bool connected() const { return connected_; }

  const std::optional<TimePoint>& join_deadline() const { return join_deadline_; }
  const std::optional<TimePoint>& fence_deadline() const { return fence_deadline_; }
  bool JoinTimedOut(TimePoint now) const { return join_deadline_ && now >= *join_deadline_; }
  /// The service has been silent for too long: the others may continue without this node, so that its workers
  /// must not. Said once a silence.
  bool TakeFence(TimePoint now);

  std::string Describe() const;
  bool operator==(const ServiceLink&) const = default;

 private:
  bool connected_ = false;
  std::optional<TimePoint> join_deadline_;
  Duration fence_timeout_;
  std::optional<TimePoint> fence_deadline_;
};

}  // namespace mtrun::launcher

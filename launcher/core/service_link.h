// This node's contact with the rendezvous service, as far as is known: whether it is there, and how long
// others are sure to wait for this node when it is not. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace mtrun::launcher {

class ServiceLink {
 public:
  /// So long a node whose workers are done waits for a service that is away, where there is no lease.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  /// `join_deadline`: for the first connection. `lease`: its length, zero for none.
  ServiceLink(TimePoint join_deadline, Duration lease)
      : patience_(lease > Duration::zero() ? lease : kPatience), join_deadline_(join_deadline) {}

  /// True for the first connection.
  bool Connected();
  /// `join_timeout`: of a node that was in no generation yet; it waits for another service as it did for the
  /// first. Else zero.
  void Disconnected(TimePoint now, Duration join_timeout = Duration::zero());
  bool connected() const { return connected_; }
  /// When a node that only wants to be told how the job ended waits no longer; nothing while there is a
  /// service.
  const std::optional<TimePoint>& gives_up() const { return gives_up_; }
  Duration patience() const { return patience_; }
  /// The service has heard this node. True when the lease had ended.
  bool Leased(TimePoint ends);

  const std::optional<TimePoint>& join_deadline() const { return join_deadline_; }
  /// Nothing where no lease was given, and once its end was taken.
  const std::optional<TimePoint>& lease_ends() const { return lease_ends_; }
  bool JoinTimedOut(TimePoint now) const { return join_deadline_ && now >= *join_deadline_; }
  /// The lease has ended. Said once.
  bool TakeLeaseEnd(TimePoint now);

  /// It was that of a generation which has ended, and is nobody's any more.
  void ForgetLease() { lease_ends_.reset(); }

  std::string Describe() const;
  bool operator==(const ServiceLink&) const = default;

 private:
  Duration patience_;  // constant after construction
  bool connected_ = false, connected_before_ = false;
  std::optional<TimePoint> join_deadline_, gives_up_, lease_ends_;
  bool ended_ = false;
};

}  // namespace mtrun::launcher

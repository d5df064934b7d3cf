// This node's contact with the rendezvous service: whether it is connected, and how long the others certainly
// wait for this node if it is not. A value; the time is an argument.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace mtrun::launcher {

class ServiceLink {
 public:
  /// How long a node whose workers are done waits for a lost service if it has no lease.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  /// `join_deadline`: for the first connection. `lease`: its length; zero if there is none.
  ServiceLink(TimePoint join_deadline, Duration lease)
      : patience_(lease > Duration::zero() ? lease : kPatience), join_deadline_(join_deadline) {}

  /// Returns true for the first connection.
  bool Connected();
  /// `join_timeout`: nonzero if the node was in no generation yet; it then waits as for the first service.
  void Disconnected(TimePoint now, Duration join_timeout = Duration::zero());
  bool connected() const { return connected_; }
  /// When a node that only waits for the job's outcome gives up; nullopt while connected.
  const std::optional<TimePoint>& gives_up() const { return gives_up_; }
  Duration timeout() const { return patience_; }
  /// Records that the service has received a message of this node. Returns true if the lease had ended.
  bool Leased(TimePoint ends);

  const std::optional<TimePoint>& join_deadline() const { return join_deadline_; }
  /// nullopt if no lease was granted, or after TakeLeaseEnd has returned true.
  const std::optional<TimePoint>& lease_ends() const { return lease_ends_; }
  bool JoinTimedOut(TimePoint now) const { return join_deadline_ && now >= *join_deadline_; }
  /// Returns whether the lease has ended; true once.
  bool TakeLeaseEnd(TimePoint now);

  /// Drops the lease of a generation that has ended.
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

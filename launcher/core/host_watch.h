// Whether the mtrun that hosts the rendezvous is dead for certain, so that other nodes may take the job over:
// its presence port refuses, and has answered this node before (a firewall refuses too), or the service that
// this node was at refuses. Pure: time is an argument; a value. Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "rendezvous/events.h"

namespace mtrun::launcher {

class HostWatch {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(200);  // between two looks
  static constexpr int kMostLooks = 5;                                // in vain at a host that is there
  static constexpr Duration kHeldNotice = std::chrono::seconds(3);  // after which people hear of a silent one

  /// `silence`: a host that has been away for so long counts as dead where `majority` decides instead of it.
  HostWatch(bool majority, Duration silence) : majority_(majority), silence_(silence) {}

  void OnConnected(const rendezvous::ServiceHost& host, TimePoint now);
  /// It had said nothing for `silent_for`.
  void OnDisconnected(TimePoint now, Duration silent_for = Duration::zero());
  /// An operator says that it never comes back: it counts as dead until it answers this node all the same.
  void OnEvicted() { evicted_ = true; }
  /// What a look at a host found.
  struct Found {
    bool alive = false, dead = false;  // its presence port: its id was read there; its machine refuses
    bool refused = false;              // so does it at the service's port
  };
  void OnLooked(const rendezvous::ServiceHost& looked, const Found& found, TimePoint now);

  /// Whom to look at now; nothing while there is nothing to find out.
  std::optional<rendezvous::ServiceHost> Look(TimePoint now) const;
  /// The others may take over, said once a time it is away.
  bool TakeOver(TimePoint now);
  /// When either changes by time alone.
  std::optional<TimePoint> NextDeadline() const;
  /// It may live, and this node holds: said once a time it is away.
  bool TellHeld(TimePoint now);
  /// When that is due.
  std::optional<TimePoint> held_due() const;

  bool away() const { return away_since_.has_value(); }
  bool proven_dead() const { return dead_; }
  const rendezvous::ServiceHost& host() const { return host_; }

  /// "node1:7000 has answered, next look +0.200 s", "node1:7000 away since -1.000 s, dead, takeover told".
  std::string Describe(TimePoint now) const;
  bool operator==(const HostWatch&) const = default;

 private:
  bool Wanted() const;

  bool majority_;     // constant after construction
  Duration silence_;  // constant after construction
  rendezvous::ServiceHost host_;
  std::optional<TimePoint> away_since_;  // heard last then; nothing while there is a service
  TimePoint next_look_;
  int looks_ = 0;  // while it is there
  bool verified_ = false, dead_ = false, evicted_ = false, told_ = false;
  bool held_told_ = false;
};

}  // namespace mtrun::launcher

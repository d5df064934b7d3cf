// Decides whether the mtrun that hosts the rendezvous is certainly dead, so that other nodes may take over
// the job. Proof: its presence port refuses and has answered this node before (a firewall refuses too), or
// the service that this node was connected to refuses. Pure: time is an argument; a value. Not thread-safe.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "rendezvous/wire/events.h"

namespace mtrun::launcher {

class HostWatch {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(200);  // between two probes
  static constexpr int kMaxLooks = 5;                                 // unanswered probes of a connected host
  static constexpr Duration kHeldNotice = std::chrono::seconds(3);    // then an operator learns of it

  /// `silence`: how long a host must be away to count as dead if `majority` decides instead of proof.
  HostWatch(bool majority, Duration silence) : majority_(majority), silence_(silence) {}

  void OnConnected(const rendezvous::ServiceHost& host, TimePoint now);
  /// `silent_for`: how long it had been silent before.
  void OnDisconnected(TimePoint now, Duration silent_for = Duration::zero());
  /// Records an operator's statement that the host is gone: it counts as dead unless it answers again.
  void OnEvicted() { evicted_ = true; }
  /// Result of a probe of a host.
  struct Found {
    bool alive = false, dead = false;  // presence port: its id was read there; its machine refuses
    bool refused = false;              // the machine refuses at the service's port
  };
  void OnLooked(const rendezvous::ServiceHost& looked, const Found& found, TimePoint now);

  /// Returns the host to probe now; nullopt if there is nothing to find out.
  std::optional<rendezvous::ServiceHost> Look(TimePoint now) const;
  /// Returns whether the others may take over; true once per absence.
  bool TakeOver(TimePoint now);
  /// Next time at which Look or TakeOver changes without an event.
  std::optional<TimePoint> NextDeadline() const;
  /// Returns whether to report that the host may be alive and this node holds; true once per absence.
  bool TellHeld(TimePoint now);
  /// Time from which TellHeld returns true.
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
  std::optional<TimePoint> away_since_;  // when it was last heard from; nullopt while connected
  TimePoint next_look_;
  int looks_ = 0;  // while connected
  bool verified_ = false, dead_ = false, evicted_ = false, told_ = false;
  bool held_told_ = false;
};

}  // namespace mtrun::launcher

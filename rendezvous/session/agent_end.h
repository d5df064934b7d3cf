// The agent's end of its session, over all its streams and services. A value; pure; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "rendezvous/session/outbox.h"
#include "rendezvous/session/stream_receiver.h"

namespace mtrun::rendezvous {

class AgentEnd {
 public:
  /// A new stream is opened with a Hello that is sent `now`: nothing counts before its Welcome.
  void OpenStream(Duration now) {
    welcomed_ = false;
    said_hello_ = now;
    ++attempt_;
  }
  /// The stream is gone; true when it had been welcomed.
  bool CloseStream();
  /// `id` is the service's of its record of this session; when it is `resumed` both ends go on where they
  /// were.
  void OnWelcome(uint64_t id, bool resumed, uint64_t acknowledged);
  /// An event arrived with this number; only what is new is to be looked at.
  StreamReceiver::Arrival Take(uint64_t sequence) { return receiver.Take(sequence); }

  /// The answer to a heartbeat. From when the lease of the generation that runs here counts; nothing where
  /// the service gives none for it: it may have gone on to another one, or know of none yet.
  std::optional<Duration> TakeLease(const Lease& lease);
  /// From when the lease counts of a worker that has left the last generation here and is in none: nothing
  /// unless a service that has the job knows of none after that one. It has one of its own: whoever still
  /// ends a step of that generation relies on its lease's end.
  std::optional<Duration> OutsideLease(const Lease& lease) const;
  /// The same as TakeLease when a generation begins here.
  std::optional<Duration> FirstLease();
  /// The host of the service that had the job is found dead.
  void OnHostDead(Duration now);
  /// How long ago a service heard this node last that had the job, when its host was found dead (`now` where
  /// it was not): one that is silent for less than JobSettings::LostAfter the job has not gone on without.
  /// The most there is when none ever did.
  Duration Silence(Duration now) const;

  bool welcomed() const { return welcomed_; }
  /// The number of the newest stream, over all services, from 1: goes with its Hello.
  uint64_t attempt() const { return attempt_; }
  /// Of the last Welcome, 0 for none: goes with the next Hello.
  uint64_t welcomed_by() const { return welcomed_by_; }

  bool operator==(const AgentEnd&) const = default;
  std::string Describe() const;

  Outbox outbox;
  StreamReceiver receiver;

 private:
  void HeardByTheJob(Duration sent);

  bool welcomed_ = false;
  uint64_t attempt_ = 0;
  uint64_t welcomed_by_ = 0;
  Duration said_hello_ = Duration::zero();
  // When the newest Hello or heartbeat was sent that a service has heard, and one that had the job.
  Duration heard_ = Duration::zero(), had_job_ = Duration::zero();
  std::optional<Duration> host_dead_;  // since then
};

}  // namespace mtrun::rendezvous

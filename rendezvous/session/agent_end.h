// The agent's side of its session, over all its streams and services. A value; pure; not thread-safe.
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
  /// Opens a new stream with a Hello that is sent `now`: nothing counts before its Welcome.
  void OpenStream(Duration now) {
    welcomed_ = false;
    said_hello_ = now;
    ++attempt_;
  }
  /// Closes the stream; returns true if it was welcomed.
  bool CloseStream();
  /// `id` identifies the service's record of this session; if `resumed`, both ends continue where they were.
  void OnWelcome(uint64_t id, bool resumed, uint64_t acknowledged);
  /// Takes the number of an event that arrived; only new events are to be handled.
  StreamReceiver::Arrival Take(uint64_t sequence) { return receiver.Take(sequence); }

  /// Takes the answer to a heartbeat. Returns when the lease of the generation that runs here begins; empty
  /// if the service gives none for it: it may have moved on to another one, or know of none yet.
  std::optional<Duration> TakeLease(const Lease& lease);
  /// Returns when the lease begins of a worker that has left the last generation here and is in none; empty
  /// unless a service that has the job knows of none after that one. It is a separate lease: workers that
  /// still end a step of that generation rely on the end of theirs.
  std::optional<Duration> OutsideLease(const Lease& lease) const;
  /// The same as TakeLease, for a generation that begins here.
  std::optional<Duration> FirstLease();
  /// Notes that the host of the service that had the job was found dead.
  void OnHostDead(Duration now);
  /// Returns the time from the last contact with a service that had the job until its host was found dead
  /// (until `now` if it was not). If it is below JobSettings::LostAfter, the job has not continued without
  /// this node. Returns the maximum if there was no contact.
  Duration Silence(Duration now) const;

  bool welcomed() const { return welcomed_; }
  /// The number of the newest stream, over all services, from 1; sent with its Hello.
  uint64_t attempt() const { return attempt_; }
  /// The id from the last Welcome, 0 for none; sent with the next Hello.
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
  // When the newest Hello or heartbeat was sent that reached a service, or one that had the job.
  Duration heard_ = Duration::zero(), had_job_ = Duration::zero();
  std::optional<Duration> host_dead_;  // if it was found dead since the last contact
};

}  // namespace mtrun::rendezvous

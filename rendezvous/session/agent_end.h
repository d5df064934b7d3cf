// The agent's end of its session, over all its streams and services. A value; pure; not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/session/outbox.h"
#include "rendezvous/session/stream_receiver.h"

namespace mtrun::rendezvous {

class AgentEnd {
 public:
  /// A new stream was opened: nothing counts before its Welcome.
  void OpenStream() { welcomed_ = false; }
  /// The stream is gone; true when it had been welcomed.
  bool CloseStream();
  /// `id` is the service's of its record of this session; when it is `resumed` both ends go on where they
  /// were.
  void OnWelcome(uint64_t id, bool resumed, uint64_t acknowledged);
  /// An event arrived with this number; only what is new is to be looked at.
  StreamReceiver::Arrival Take(uint64_t sequence) { return receiver.Take(sequence); }

  bool welcomed() const { return welcomed_; }
  /// Of the last Welcome, 0 for none: goes with the next Hello.
  uint64_t welcomed_by() const { return welcomed_by_; }

  bool operator==(const AgentEnd&) const = default;
  std::string Describe() const;

  Outbox outbox;
  StreamReceiver receiver;

 private:
  bool welcomed_ = false;
  uint64_t welcomed_by_ = 0;
};

}  // namespace mtrun::rendezvous

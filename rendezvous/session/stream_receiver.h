// The receiving end of one direction of a session: which numbered messages are new, and what to acknowledge.
// A value; pure; not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {

class StreamReceiver {
 public:
  enum class Arrival {
    kNew,       // the next message
    kRepeated,  // it already came over an earlier stream
    kGap,       // an earlier message is missing: the other end breaks the protocol
  };

  /// Takes the number of a message; a new one counts as received. An acknowledgement is due in any case,
  /// because the sender of a repeated message does not know that it arrived.
  Arrival Take(uint64_t sequence) {
    due_ = true;
    if (sequence <= received_) return Arrival::kRepeated;
    if (sequence != received_ + 1) return Arrival::kGap;
    received_ = sequence;
    return Arrival::kNew;
  }
  /// Requests an acknowledgement for a message without a number.
  void RequestAcknowledgement() { due_ = true; }
  bool acknowledgement_due() const { return due_; }
  /// Returns the highest number received without a gap, for a message that is written now.
  uint64_t Acknowledge() {
    due_ = false;
    return received_;
  }
  uint64_t received() const { return received_; }

  /// The other end begins at 1 again.
  void StartOver() { received_ = 0; }

  bool operator==(const StreamReceiver&) const = default;
  std::string Describe() const {
    return absl::StrCat(received_, " received", due_ ? ", acknowledgement due" : "");
  }

 private:
  uint64_t received_ = 0;
  bool due_ = false;
};

}  // namespace mtrun::rendezvous

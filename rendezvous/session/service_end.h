// The service's end of one agent's session, over all its streams. A value; pure; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/session/stream_receiver.h"
#include "rendezvous/session/stream_sender.h"

namespace mtrun::rendezvous {

/// `Message`: an event for the agent.
template <typename Message>
class ServiceEnd {
 public:
  /// `id` goes with each Welcome: an agent that was welcomed with it counts on from there.
  explicit ServiceEnd(uint64_t id = 0) : id_(id) {}

  /// Whether `attempt` is newer than any that the agent has made: the stream counts, and it alone. Another
  /// one was given up since, and its Hello was under way for longer, behind a cable that was out for example;
  /// and none is made twice: the same Hello again is not the agent's. 0: it does not count them.
  bool Takes(uint64_t attempt) {
    if (attempt < newest_ || (attempt == newest_ && attempt > 0)) return false;
    newest_ = attempt;
    return true;
  }
  /// The agent said Hello on a new stream: `welcomed_by` is the id of the last Welcome that it heard, 0 for
  /// none, `acknowledged` what it received. True when both ends go on where they were, for Welcome to say so;
  /// otherwise both begin at 1. (Not the service's own id decides: it may have forgotten the agent since, and
  /// a Welcome may be lost on its way. An agent that never heard one still counts from the first.) Hands out
  /// in `done` what became acknowledged.
  bool Open(uint64_t welcomed_by, uint64_t acknowledged, std::vector<Message>* done = nullptr) {
    const bool resumed = std::exchange(opened_, true) && (welcomed_by == id_ || welcomed_by == 0);
    if (resumed) {
      std::vector<Message> heard = sender.Acknowledge(acknowledged);
      if (done != nullptr) *done = std::move(heard);
      sender.Resume();
    } else {
      sender.StartOver();
      receiver.StartOver();
    }
    return resumed;
  }

  uint64_t id() const { return id_; }

  bool operator==(const ServiceEnd&) const = default;
  std::string Describe() const {
    return absl::StrCat("to the agent: ", sender.Describe(), "; from it: ", receiver.Describe());
  }

  StreamSender<Message> sender;
  StreamReceiver receiver;

 private:
  uint64_t id_ = 0;
  uint64_t newest_ = 0;  // attempt of the agent's
  bool opened_ = false;
};

}  // namespace mtrun::rendezvous

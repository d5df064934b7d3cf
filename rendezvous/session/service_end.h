// The service's side of one agent's session, over all its streams. A value; pure; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/session/stream_receiver.h"
#include "rendezvous/session/stream_sender.h"

namespace mtrun::rendezvous {

/// `Message`: the type of an event for the agent.
template <typename Message>
class ServiceEnd {
 public:
  /// `id` is sent with each Welcome: an agent that was welcomed with it continues from there.
  explicit ServiceEnd(uint64_t id = 0) : id_(id) {}

  /// Returns true if `attempt` is newer than all others of the agent; then only its stream counts. An older
  /// attempt was given up, and its Hello was delayed, for example by a broken cable. An equal one does not
  /// come from the agent. 0: the agent does not count its attempts.
  bool Takes(uint64_t attempt) {
    if (attempt < newest_ || (attempt == newest_ && attempt > 0)) return false;
    newest_ = attempt;
    return true;
  }
  /// Handles the agent's Hello on a new stream. `welcomed_by` is the id of the last Welcome that it received,
  /// 0 for none; `acknowledged` is what it received. Returns true, for Welcome, if both ends continue where
  /// they were; otherwise both begin at 1. (The service's own id cannot decide: it may have forgotten the
  /// agent since, and a Welcome may be lost. An agent that never received one still counts from 1.) Appends
  /// newly acknowledged messages to `done`.
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
  uint64_t newest_ = 0;  // newest attempt of the agent
  bool opened_ = false;
};

}  // namespace mtrun::rendezvous

// The sending end of one direction of a session: numbers messages from 1, keeps each until the other end has
// acknowledged it, and continues after that on the next stream. A value; pure; not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {

template <typename Message>
class StreamSender {
 public:
  struct Item {
    uint64_t sequence = 0;
    const Message* message = nullptr;
  };

  /// Returns the number with which the message will be written.
  uint64_t Add(Message message) {
    kept_.push_back(std::move(message));
    return acknowledged_ + kept_.size();
  }
  /// True if all are written on the current stream.
  bool AllWritten() const { return written_ == kept_.size(); }
  /// Returns the next message to be written on the current stream, or nothing if all are written. It counts
  /// as written from now on, and is valid until the next change.
  std::optional<Item> Next() {
    if (AllWritten()) return std::nullopt;
    const Item item{acknowledged_ + written_ + 1, &kept_[written_]};
    ++written_;
    if (item.sequence > sent_) sent_ = item.sequence;
    return item;
  }
  /// Notes that the other end has all messages up to `sequence`, and returns, in order, those that are newly
  /// acknowledged. Higher numbers than were ever written are ignored: those messages cannot have arrived.
  std::vector<Message> Acknowledge(uint64_t sequence) {
    std::vector<Message> done;
    while (acknowledged_ < sequence && acknowledged_ < sent_) {
      done.push_back(std::move(kept_.front()));
      kept_.pop_front();
      ++acknowledged_;
      if (written_ > 0) --written_;
    }
    return done;
  }

  /// Continues on a new stream with an end that knows the session: writes unacknowledged messages again.
  void Resume() { written_ = 0; }
  /// Starts with an end that knows nothing: all unacknowledged messages are written again, from number 1.
  void StartOver() { acknowledged_ = sent_ = written_ = 0; }
  /// The same, but keeps nothing: returns the messages in order.
  std::vector<Message> Reset() {
    std::vector<Message> kept(std::make_move_iterator(kept_.begin()), std::make_move_iterator(kept_.end()));
    *this = StreamSender();
    return kept;
  }

  /// The unacknowledged messages, in order.
  const std::deque<Message>& kept() const { return kept_; }
  uint64_t acknowledged() const { return acknowledged_; }

  bool operator==(const StreamSender&) const = default;
  std::string Describe() const {
    return absl::StrCat(acknowledged_, " acknowledged, ", kept_.size(), " kept, ", written_,
                        " of them written");
  }

 private:
  std::deque<Message> kept_;
  uint64_t acknowledged_ = 0;  // the number before the first of kept_
  uint64_t sent_ = 0;          // the highest number ever written on any stream
  size_t written_ = 0;         // number of kept_ written on the current stream
};

}  // namespace mtrun::rendezvous

// The sending end of one direction of a session: numbers what goes out from 1, keeps it until the other end
// has acknowledged it, and continues after that on the next stream. A value; pure; not thread-safe.
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

  /// The number that it will be written with.
  uint64_t Add(Message message) {
    kept_.push_back(std::move(message));
    return acknowledged_ + kept_.size();
  }
  /// On the current stream.
  bool AllWritten() const { return written_ == kept_.size(); }
  /// The next one to be written on the current stream, which counts as written from now on; its message is
  /// valid until the next change. Nothing when all of them are written.
  std::optional<Item> Next() {
    if (AllWritten()) return std::nullopt;
    const Item item{acknowledged_ + written_ + 1, &kept_[written_]};
    ++written_;
    if (item.sequence > sent_) sent_ = item.sequence;
    return item;
  }
  /// The other end has all up to `sequence`. Hands out, in order, those that it had not acknowledged before.
  /// What was never written cannot have arrived: more than that does not count.
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

  /// A new stream, to an end that still knows the session: all that is not acknowledged is written again.
  void Resume() { written_ = 0; }
  /// A new stream, to an end that knows nothing: all that is not acknowledged is written again, from
  /// number 1.
  void StartOver() { acknowledged_ = sent_ = written_ = 0; }
  /// The same, with nothing kept: hands it out in order.
  std::vector<Message> Reset() {
    std::vector<Message> kept(std::make_move_iterator(kept_.begin()), std::make_move_iterator(kept_.end()));
    *this = StreamSender();
    return kept;
  }

  /// What is not acknowledged yet, in order.
  const std::deque<Message>& kept() const { return kept_; }
  uint64_t acknowledged() const { return acknowledged_; }

  bool operator==(const StreamSender&) const = default;
  std::string Describe() const {
    return absl::StrCat(acknowledged_, " acknowledged, ", kept_.size(), " kept, ", written_,
                        " of them written");
  }

 private:
  std::deque<Message> kept_;
  uint64_t acknowledged_ = 0;  // the number of the one ahead of kept_
  uint64_t sent_ = 0;          // the highest number ever written on any stream
  size_t written_ = 0;         // so many of kept_ are written on the current stream
};

}  // namespace mtrun::rendezvous

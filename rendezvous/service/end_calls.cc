#include "rendezvous/service/end_calls.h"

#include <utility>

namespace mtrun::rendezvous {

void EndCalls::Add(Call call) {
  std::erase_if(calls_, [](const Call& waiting) {
    const bool gone = waiting.cancelled();
    if (gone) waiting.done(false);
    return gone;
  });
  if (closed_ || calls_.size() >= kMost) return call.done(false);
  calls_.push_back(std::move(call));
}

void EndCalls::Close() {
  closed_ = true;
  Answer(false);
}

void EndCalls::Answer(bool ended) {
  for (const Call& call : std::exchange(calls_, {})) call.done(ended);
}

}  // namespace mtrun::rendezvous

// Questions for the end: who looks now and then (mtrun --status --watch, --logs --follow) would miss it where
// the service ends with its job. Each is answered once. Loop thread only.
#pragma once

#include <functional>
#include <vector>

namespace mtrun::rendezvous {

class EndCalls {
 public:
  static constexpr size_t kMost = 64;
  struct Call {
    std::function<bool()> cancelled;       // nobody waits for it any more
    std::function<void(bool ended)> done;  // false: not here
  };

  bool empty() const { return calls_.empty(); }
  /// Answered at once with false when too many wait, or after Close.
  void Add(Call call);
  /// All jobs here have ended.
  void OnEnded() { Answer(true); }
  /// The service ends.
  void Close();

 private:
  void Answer(bool ended);

  std::vector<Call> calls_;
  bool closed_ = false;
};

}  // namespace mtrun::rendezvous

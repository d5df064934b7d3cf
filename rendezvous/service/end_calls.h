// Requests that wait for the end of all jobs: clients that poll (mtrun --status --watch, --logs --follow)
// would miss it if the service ends with its job. Each is answered once. Loop thread only.
#pragma once

#include <functional>
#include <vector>

namespace mtrun::rendezvous {

class EndCalls {
 public:
  static constexpr size_t kMost = 64;
  struct Call {
    std::function<bool()> cancelled;       // true if the client does not wait any more
    std::function<void(bool ended)> done;  // false: there was no end
  };

  bool empty() const { return calls_.empty(); }
  /// Answers at once with false if too many wait, or after Close.
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

// A body that goes on: what is set on any thread is sent when the client can take it. A client that is slow
// gets the newest text only, so that none piles up here.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"

namespace mtrun::web {

/// Thread-safe.
class LiveBody {
 public:
  /// Sent next; replaces what was set before and has not been sent. An empty text is none.
  void Set(std::string text);
  /// Nothing comes any more: the connection ends behind what was set.
  void End();
  /// The client is gone, or there never was one: nobody reads what is set.
  bool gone() const;

  // The connection's side.
  struct Next {
    std::optional<std::string> text;  // nothing: wait for `wake`
    bool ended = false;
  };
  Next Take();
  /// `wake` is called, on any thread, when there is something to take. Must not call this object.
  void Attach(std::function<void()> wake);
  /// After it `wake` is not called.
  void Detach();

 private:
  mutable Mutex mu_;
  std::optional<std::string> text_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> wake_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mtrun::web

// A response body without a fixed end: any thread sets text, which is sent when the client can take it. A
// slow client gets only the newest text, so that none piles up here.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"

namespace mtrun::web {

/// Thread-safe.
class LiveBody {
 public:
  /// Sets the next text to send, replacing one that has not been sent yet. An empty text is ignored.
  void Set(std::string text);
  /// Ends the connection after the text set last.
  void End();
  /// Returns whether the client is gone or never existed; text set then is ignored.
  bool gone() const;

  // Used by the connection.
  struct Next {
    std::optional<std::string> text;  // nothing: wait for `wake`
    bool ended = false;
  };
  Next Take();
  /// Sets the callback for new text; it runs on any thread and must not call this object.
  void Attach(std::function<void()> wake);
  /// Removes the callback; it is not called afterwards.
  void Detach();

 private:
  mutable Mutex mu_;
  std::optional<std::string> text_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool gone_ ABSL_GUARDED_BY(mu_) = false;
  std::function<void()> wake_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mtrun::web

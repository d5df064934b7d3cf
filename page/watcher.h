// Queries the service on its own thread while the page has clients, and distributes the answers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "nlohmann/json.hpp"
#include "page/history.h"
#include "page/sessions.h"
#include "rendezvous/client/watch_client.h"
#include "web/live_body.h"

namespace mtrun::page {

/// Thread-safe.
class Watcher {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two queries
  using Ask =
      std::function<absl::StatusOr<rendezvous::WatchedState>(const std::vector<std::string>& endpoints)>;
  using Told = std::function<void(const nlohmann::json& state)>;
  using Probed = std::function<void(bool answers)>;
  static constexpr Duration kFresh = std::chrono::seconds(2);
  static constexpr size_t kMaxProbes = 8;  // waiting at a time

  /// `ask` is called only on the watcher's thread; its answer serves probes for `fresh`.
  Watcher(Ask ask, std::vector<std::string> endpoints, Duration fresh = kFresh);
  ~Watcher();
  Watcher(const Watcher&) = delete;

  /// Replaces the candidate endpoints of the job's services.
  void SetEndpoints(std::vector<std::string> endpoints);
  std::vector<std::string> endpoints() const;
  /// Sends server-sent events to `body` until its client leaves or `session` (unless null) ends.
  void AddListener(std::shared_ptr<web::LiveBody> body, std::shared_ptr<const Session> session);
  /// Ends the listeners whose sessions have ended. Before each event this happens by itself.
  void EndListeners();
  /// Calls `told` once with the next state, on the watcher's thread.
  void Look(Told told);
  /// Checks whether a service answers. Calls `told` once, immediately if the last answer is recent, otherwise
  /// like Look. Returns false, without a call, if too many probes are waiting.
  bool Probe(Probed told);

 private:
  void Run();
  void Remember(bool answers, TimePoint now);
  bool Wanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !listeners_.empty() || !looking_.empty() || !probing_.empty();
  }
  void DropListeners() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  struct Listener {
    std::shared_ptr<web::LiveBody> body;
    std::shared_ptr<const Session> session;
  };

  // Used on the watcher's thread only.
  const Ask ask_;
  const Duration fresh_;
  History history_;

  mutable Mutex mu_;
  Condition changed_;
  std::vector<std::string> endpoints_ ABSL_GUARDED_BY(mu_);
  std::vector<Listener> listeners_ ABSL_GUARDED_BY(mu_);
  std::vector<Told> looking_ ABSL_GUARDED_BY(mu_);
  std::vector<Probed> probing_ ABSL_GUARDED_BY(mu_);
  size_t waiting_ ABSL_GUARDED_BY(mu_) = 0;  // probes, including those of the current round
  bool answers_ ABSL_GUARDED_BY(mu_) = false;
  TimePoint fresh_until_ ABSL_GUARDED_BY(mu_){};
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;
};

}  // namespace mtrun::page

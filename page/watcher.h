// Asks the service while somebody looks, on a thread of its own, and hands out what it says.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "nlohmann/json.hpp"
#include "page/history.h"
#include "rendezvous/watch_client.h"
#include "web/live_body.h"

namespace mtrun::page {

/// Thread-safe.
class Watcher {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two questions
  using Ask =
      std::function<absl::StatusOr<rendezvous::WatchedState>(const std::vector<std::string>& endpoints)>;
  using Told = std::function<void(const nlohmann::json& state)>;
  using Probed = std::function<void(bool answers)>;
  static constexpr Duration kFresh = std::chrono::seconds(2);
  static constexpr size_t kMostProbes = 8;  // that wait at a time

  /// `ask` is called on the watcher's thread alone; what it says serves probes for `fresh`.
  Watcher(Ask ask, std::vector<std::string> endpoints, Duration fresh = kFresh);
  ~Watcher();
  Watcher(const Watcher&) = delete;

  /// Where services of the job may be from now on.
  void SetEndpoints(std::vector<std::string> endpoints);
  std::vector<std::string> endpoints() const;
  /// Events of server-sent kind, until its client goes.
  void AddListener(std::shared_ptr<web::LiveBody> listener);
  /// Calls `told` once, on the watcher's thread.
  void Look(Told told);
  /// Whether a service answers, for whoever asks: calls `told` once, here where that was asked a moment ago,
  /// else as Look. False, and no call: too many wait for that already.
  bool Probe(Probed told);

 private:
  void Run();
  void Remember(bool answers, TimePoint now);
  bool Wanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !listeners_.empty() || !looking_.empty() || !probing_.empty();
  }
  void DropGone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Watcher's thread alone.
  const Ask ask_;
  const Duration fresh_;
  History history_;

  mutable Mutex mu_;
  Condition changed_;
  std::vector<std::string> endpoints_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<web::LiveBody>> listeners_ ABSL_GUARDED_BY(mu_);
  std::vector<Told> looking_ ABSL_GUARDED_BY(mu_);
  std::vector<Probed> probing_ ABSL_GUARDED_BY(mu_);
  size_t waiting_ ABSL_GUARDED_BY(mu_) = 0;  // probes, those of the round under way too
  bool answers_ ABSL_GUARDED_BY(mu_) = false;
  TimePoint fresh_until_ ABSL_GUARDED_BY(mu_){};
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;
};

}  // namespace mtrun::page

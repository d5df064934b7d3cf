// Finds out whether the mtrun that hosts the rendezvous is dead, on a thread of its own, and says then which
// services may take the job over: those of the other members. Its methods may be called from any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "launcher/core/host_watch.h"
#include "launcher/hosting.h"
#include "rendezvous/eviction.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

class Succession {
 public:
  /// `take_over`: with the endpoints of those services, in order of rank, none where this node has not heard
  /// of any; called on its thread.
  using TakeOver = std::function<void(const std::vector<std::string>& endpoints)>;

  /// What the service here hears of the host's eviction comes here as long as this lives.
  Succession(HostWatch watch, Hosting& hosting, TakeOver take_over);
  ~Succession();
  Succession(const Succession&) = delete;

  void OnConnected(const rendezvous::ServiceHost& host);
  void OnDisconnected(Duration silent_for);
  /// The newest generation that this node knows of.
  void OnMembership(const rendezvous::Assignment& generation);

  /// See rendezvous::EvictHost, for this job.
  absl::StatusOr<rendezvous::Eviction> Evict(const std::string& job_id, const std::string& node);

 private:
  void Run();

  Hosting& hosting_;
  const TakeOver take_over_;
  Mutex mu_;
  Condition changed_;
  HostWatch watch_ ABSL_GUARDED_BY(mu_);
  std::optional<rendezvous::Assignment> last_ ABSL_GUARDED_BY(mu_);  // that this node knows of
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace mtrun::launcher

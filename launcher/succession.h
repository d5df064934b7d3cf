// Determines on a separate thread whether the mtrun that hosts the rendezvous is dead, and then reports which
// services may take over the job: those of the other members. Methods may be called from any thread.
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
#include "rendezvous/job/eviction.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

class Succession {
 public:
  /// Called on its thread with the endpoints of these services, in order of rank; empty if none is known.
  using TakeOver = std::function<void(const std::vector<std::string>& endpoints)>;

  /// This node, for messages.
  struct Self {
    uint64_t presence_id = 0;
    bool insecure = false;
  };

  /// Receives evictions of the host from the service here during its lifetime.
  Succession(HostWatch watch, Self self, Hosting& hosting, TakeOver take_over);
  ~Succession();
  Succession(const Succession&) = delete;

  void OnConnected(const rendezvous::ServiceHost& host);
  void OnDisconnected(Duration silent_for);
  /// Records the newest generation that this node knows of.
  void OnMembership(const rendezvous::Assignment& generation);

  /// See rendezvous::EvictHost; for this job.
  absl::StatusOr<rendezvous::Eviction> Evict(const std::string& job_id, const std::string& node);

 private:
  void Run();

  const Self self_;
  Hosting& hosting_;
  const TakeOver take_over_;
  Mutex mu_;
  Condition changed_;
  HostWatch watch_ ABSL_GUARDED_BY(mu_);
  std::optional<rendezvous::Assignment> last_ ABSL_GUARDED_BY(mu_);  // latest known generation
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last member: it uses the others
};

}  // namespace mtrun::launcher

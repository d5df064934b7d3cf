// Whether this node hosts the rendezvous service: where an endpoint is this node's, and nobody else serves
// there. Tried at the start, and again for as long as no service answers: the one that was there may have
// ended with its mtrun, which may have been another job's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "launcher/cli/options.h"
#include "rendezvous/events.h"
#include "rendezvous/job_run.h"
#include "rendezvous/service/host.h"

namespace mtrun::launcher {

class Hosting {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two attempts

  /// `options` must outlive it; `credentials` are those of every service here.
  Hosting(const Options& options, rendezvous::HostOptions credentials);
  /// Stops the service, if there is one.
  ~Hosting();
  Hosting(const Hosting&) = delete;

  /// Hosts where an address of an endpoint is one of this machine's; an endpoint behind address translation
  /// is found out by Seek. Blocks while names are looked up. Errors as StartIfHost.
  absl::Status Begin();
  /// Where no service here is at the endpoint: one that takes the job over when its host is dead, unless this
  /// node is not to host (is_host). `address`: where the other nodes reach this one.
  absl::Status StandBy(const std::string& address);
  /// Who hears, from now on, what an operator says of the job's host to the service that stands by; nullptr:
  /// nobody. Any thread; nobody hears anything any more when it has returned.
  void SetEvictHost(rendezvous::EvictHost evict_host);
  /// No service answers: tries to host, on a thread of its own, until it does or Rest is called. Any thread.
  void Seek();
  /// A service answers. A node on the machine of the job's one endpoint still tries to host there if it is
  /// at another service (one that stands by): what that one waits for may be the file on this disk. One that
  /// does not live in an mtrun is an operator's to start again: this node does not take its place. Any
  /// thread.
  void Rest(const rendezvous::ServiceHost& host);

  /// The endpoint with its real port, where this node hosts; "" where it does not.
  std::string endpoint() const;
  /// Of the service here that members may turn to; 0: none.
  int service_port() const { return service_port_; }
  /// This is the last generation of the job, which has one endpoint, at whichever service this node heard of
  /// it. One at the endpoint here does not let another run begin beside it.
  void OnMembership(const rendezvous::Assignment& last) const;
  /// This run of the job has ended so, wherever its service was then. See rendezvous::NoteEnd.
  void NoteEnd(rendezvous::EndedRun run, const rendezvous::JobOutcome& outcome) const;
  /// Ids of nodes that have not heard how their job ended, see Service; none where this node does not host.
  std::vector<std::string> Untold() const;

 private:
  void Run();
  absl::StatusOr<rendezvous::Eviction> EvictHost(const std::string& job_id, const std::string& node);
  /// Once around the endpoints; those that are not this machine's only with `elsewhere`.
  absl::StatusOr<std::unique_ptr<rendezvous::Host>> Try(bool elsewhere, bool begins) const;
  bool IsAnyHere() const;
  void Take(std::unique_ptr<rendezvous::Host> host);

  const Options& options_;
  const rendezvous::HostOptions credentials_;
  const std::vector<std::string> endpoints_;

  Mutex evict_mu_;
  rendezvous::EvictHost evict_host_ ABSL_GUARDED_BY(evict_mu_);

  // Constant after StandBy.
  int service_port_ = 0;
  std::unique_ptr<rendezvous::Host> standby_;

  mutable Mutex mu_;
  Condition changed_;
  std::unique_ptr<rendezvous::Host> host_ ABSL_GUARDED_BY(mu_);  // stays once it is there
  bool seeking_ ABSL_GUARDED_BY(mu_) = false;
  bool only_here_ ABSL_GUARDED_BY(mu_) = false;         // seeks only if an endpoint is this machine's
  bool connected_before_ ABSL_GUARDED_BY(mu_) = false;  // there has been a service
  bool stand_alone_ ABSL_GUARDED_BY(mu_) = false;       // the last one was not in an mtrun
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace mtrun::launcher

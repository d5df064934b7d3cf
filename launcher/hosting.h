// Hosts the rendezvous service on this node if one of the endpoints is this node's and no service is there
// yet. It is tried at the start, and again while no service answers: the previous one may have ended with its
// mtrun, which may have belonged to another job.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "launcher/cli/options.h"
#include "rendezvous/service/host.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/job_run.h"

namespace mtrun::launcher {

class Hosting {
 public:
  static constexpr Duration kPause = std::chrono::milliseconds(500);  // between two attempts

  /// `options` must outlive it; `credentials` apply to every service here.
  Hosting(const Options& options, rendezvous::HostOptions credentials);
  /// Stops the service, if there is one.
  ~Hosting();
  Hosting(const Hosting&) = delete;

  /// Hosts if an endpoint has an address of this machine; the later nodes of a static job leave that to node
  /// 0. Endpoints behind address translation are left to StartHosting. Blocks during name lookups. Errors as
  /// StartIfHost.
  absl::Status Begin();
  /// If no service here is at the endpoint: starts a standby, which takes over the job if its host is dead,
  /// unless this node must not host (is_host). `address`: this node's, for peers.
  absl::Status StandBy(const std::string& address);
  /// Sets the receiver of evictions of the job's host that an operator sends to the standby; nullptr: none.
  /// Any thread; after the return the previous receiver is not called.
  void SetEvictHost(rendezvous::EvictHost evict_host);
  /// Tries to host, on a separate thread, until it does or PauseHosting is called: no service answers. Any
  /// thread.
  void StartHosting();
  /// Ends the attempts because a service answers, with two exceptions. If it is a standby, a node on the
  /// machine of the job's single endpoint continues: the standby may be waiting for the file on this disk. If
  /// the service is outside any mtrun, this node never hosts: an operator must restart it. Any thread.
  void PauseHosting(const rendezvous::ServiceHost& host);

  /// Returns the endpoint with its real port if this node hosts; otherwise "".
  std::string endpoint() const;
  /// Returns the endpoint's port if this node hosts; otherwise 0.
  int port() const;
  /// Port of the service here for the members; 0: none.
  int service_port() const { return service_port_; }
  /// Records the last generation of the job, which has one endpoint, whichever service reported it. A service
  /// at the endpoint here then lets no other run begin beside it.
  void OnMembership(const rendezvous::Assignment& last) const;
  /// Records the outcome of this run of the job, wherever its service was. See rendezvous::NoteEnd.
  void NoteEnd(rendezvous::EndedRun run, const rendezvous::JobOutcome& outcome) const;
  /// Returns the ids of nodes that have not learned their job's outcome, see Service; else empty.
  std::vector<std::string> NodesWithoutOutcome() const;

 private:
  void Run();
  absl::StatusOr<rendezvous::Eviction> EvictHost(const std::string& job_id, const std::string& node);
  /// Tries each endpoint once; those of other machines only if `elsewhere`.
  absl::StatusOr<std::unique_ptr<rendezvous::Host>> Try(bool elsewhere, bool begins) const;
  bool IsAnyHere() const;
  void Take(std::unique_ptr<rendezvous::Host> host);

  const Options& options_;
  const rendezvous::HostOptions credentials_;
  const TimePoint not_before_;  // a first attempt to host
  const std::vector<std::string> endpoints_;

  Mutex evict_mu_;
  rendezvous::EvictHost evict_host_ ABSL_GUARDED_BY(evict_mu_);

  // Constant after StandBy.
  int service_port_ = 0;
  std::unique_ptr<rendezvous::Host> standby_;

  mutable Mutex mu_;
  Condition changed_;
  std::unique_ptr<rendezvous::Host> host_ ABSL_GUARDED_BY(mu_);  // never reset
  bool seeking_ ABSL_GUARDED_BY(mu_) = false;
  bool only_here_ ABSL_GUARDED_BY(mu_) = false;         // seek only if an endpoint is this machine's
  bool connected_before_ ABSL_GUARDED_BY(mu_) = false;  // a service has answered before
  bool stand_alone_ ABSL_GUARDED_BY(mu_) = false;       // the last service was outside any mtrun
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace mtrun::launcher

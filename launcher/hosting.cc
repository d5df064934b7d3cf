#include "launcher/hosting.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "rendezvous/service/listen_addresses.h"
#include "rendezvous/service/state_folder.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kWaitForNodeZero = std::chrono::seconds(30);

bool IsOnThisMachine(const std::string& text) {
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
  if (!endpoint.ok()) return false;
  const std::vector<std::string> addresses =
      IsIpAddress(endpoint->host) ? std::vector{endpoint->host} : ResolveHost(endpoint->host);
  return std::any_of(addresses.begin(), addresses.end(), rendezvous::IsOwn);
}

/// Returns until when this node leaves it to node 0 to host: a static job's endpoint is node 0's, and its
/// store has that port only there. Node 0 may be gone for good, so not forever.
TimePoint HostsNotBefore(const Options& options) {
  const bool follows = options.meets_at_master_port && options.node_rank.value_or(0) > 0;
  return follows && options.is_host != true ? MonotonicNow() + kWaitForNodeZero : TimePoint();
}

}  // namespace

Hosting::Hosting(const Options& options, rendezvous::HostOptions credentials)
    : options_(options),
      credentials_(std::move(credentials)),
      not_before_(HostsNotBefore(options)),
      endpoints_(options.job.endpoints.empty() ? std::vector{options.endpoint} : options.job.endpoints) {}

Hosting::~Hosting() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status Hosting::Begin() {
  if (MonotonicNow() < not_before_) return absl::OkStatus();
  MT_ASSIGN_OR_RETURN(std::unique_ptr<rendezvous::Host> host, Try(/*elsewhere=*/false, /*begins=*/true));
  if (host) Take(std::move(host));
  return absl::OkStatus();
}

absl::Status Hosting::StandBy(const std::string& address) {
  if (options_.is_host == false) return absl::OkStatus();
  service_port_ = port();
  if (service_port_ != 0) return absl::OkStatus();
  rendezvous::HostOptions options = credentials_;
  options.endpoint = options_.endpoint;
  options.ports = options_.port_range;
  options.all_addresses = options_.serves_all;
  options.evict_host = [this](const std::string& job_id, const std::string& node) {
    return EvictHost(job_id, node);
  };
  MT_ASSIGN_OR_RETURN(standby_, rendezvous::StartStandby(options, address));
  MT_ASSIGN_OR_RETURN(const Endpoint at, ParseEndpoint(standby_->endpoint()));
  service_port_ = at.port;
  return absl::OkStatus();
}

void Hosting::SetEvictHost(rendezvous::EvictHost evict_host) {
  const MutexLock lock(evict_mu_);
  evict_host_ = std::move(evict_host);
}

absl::StatusOr<rendezvous::Eviction> Hosting::EvictHost(const std::string& job_id, const std::string& node) {
  const MutexLock lock(evict_mu_);
  const std::string& own = options_.job.job_id;
  if (!evict_host_ || (!job_id.empty() && job_id != own))
    return absl::NotFoundError(absl::StrCat("this node is not in job \"", job_id, "\""));
  return evict_host_(own, node);
}

void Hosting::StartHosting() {
  const MutexLock lock(mu_);
  if (host_ || stand_alone_) return;
  seeking_ = true;
  only_here_ = false;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.NotifyAll();
}

void Hosting::PauseHosting(const rendezvous::ServiceHost& host) {
  const bool beside_endpoint = host.embedded && !host.service.empty() && endpoints_.size() == 1;
  const MutexLock lock(mu_);
  seeking_ = only_here_ = seeking_ && beside_endpoint;
  stand_alone_ = !host.embedded;
  connected_before_ = true;
}

bool Hosting::IsAnyHere() const {
  return options_.is_host == true || std::any_of(endpoints_.begin(), endpoints_.end(), IsOnThisMachine);
}

std::string Hosting::endpoint() const {
  const MutexLock lock(mu_);
  return host_ ? host_->endpoint() : "";
}

int Hosting::port() const {
  const absl::StatusOr<Endpoint> own = ParseEndpoint(endpoint());
  return own.ok() ? own->port : 0;
}

std::vector<std::string> Hosting::NodesWithoutOutcome() const {
  std::vector<std::string> untold;
  if (standby_) untold = standby_->NodesWithoutOutcome();
  const MutexLock lock(mu_);
  if (!host_) return untold;
  for (const std::string& node : host_->NodesWithoutOutcome()) untold.push_back(node);
  return untold;
}

void Hosting::OnMembership(const rendezvous::Assignment& last) const {
  const MutexLock lock(mu_);
  if (host_) host_->AdoptMembership(options_.job.job_id, last);
}

void Hosting::NoteEnd(rendezvous::EndedRun run, const rendezvous::JobOutcome& outcome) const {
  run.success = outcome.success;
  const rendezvous::RememberedEnd end{options_.job.job_id, run, outcome};
  for (const std::string& endpoint : endpoints_) {
    rendezvous::NoteEnd(credentials_.state_folder, rendezvous::StateKey(endpoint, credentials_.state_host),
                        end);
  }
}

void Hosting::Run() {
  mu_.Lock();
  while (!stopping_ && !host_) {
    if (!seeking_) {
      changed_.Wait(mu_);
      continue;
    }
    const bool first = !connected_before_, only_here = only_here_;
    if (first && MonotonicNow() < not_before_) {
      changed_.WaitUntil(mu_, not_before_);
      continue;
    }
    mu_.Unlock();
    if (only_here && !IsAnyHere()) {
      mu_.Lock();
      if (only_here_) seeking_ = only_here_ = false;
      continue;
    }
    absl::StatusOr<std::unique_ptr<rendezvous::Host>> host = Try(/*elsewhere=*/first, /*begins=*/first);
    if (host.ok() && *host) Take(*std::move(host));
    mu_.Lock();
    const TimePoint next = MonotonicNow() + kPause;
    while (!stopping_ && !host_ && changed_.WaitUntil(mu_, next)) {
    }
  }
  mu_.Unlock();
}

absl::StatusOr<std::unique_ptr<rendezvous::Host>> Hosting::Try(bool elsewhere, bool begins) const {
  for (const std::string& endpoint : endpoints_) {
    if (!elsewhere && options_.is_host != true && !IsOnThisMachine(endpoint)) continue;
    rendezvous::HostOptions options = credentials_;
    options.endpoint = endpoint;
    options.is_host = options_.is_host;
    options.all_addresses = options_.serves_all;
    if (begins) options.job_id = options_.job.job_id;
    MT_ASSIGN_OR_RETURN(std::unique_ptr<rendezvous::Host> host, rendezvous::StartIfHost(options));
    if (host) return host;
  }
  return nullptr;
}

void Hosting::Take(std::unique_ptr<rendezvous::Host> host) {
  log::Info("hosting the rendezvous at ", host->endpoint());
  log::Debug(host->reason());
  const MutexLock lock(mu_);
  host_ = std::move(host);
}

}  // namespace mtrun::launcher

#include "launcher/succession.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/core/agent_messages.h"
#include "launcher/core/host_eviction.h"
#include "rendezvous/service/peer_prober.h"
#include "rendezvous/service/presence_prober.h"

namespace mtrun::launcher {
namespace {

constexpr Duration kPatience = std::chrono::milliseconds(700);
constexpr Duration kRest = std::chrono::hours(1);  // while there is nothing to do
constexpr char kHost[] = "host";

HostWatch::Found LookAt(const rendezvous::ServiceHost& host) {
  HostWatch::Found found;
  if (host.presence.id != 0) {
    const auto seen = rendezvous::ProbePresence({{kHost, host.presence}}, kPatience);
    found.alive = seen.alive.contains(kHost);
    found.dead = seen.dead.contains(kHost);
  }
  found.refused = !host.service.empty() && !found.alive &&
                  rendezvous::TryConnect(host.service, kPatience) == rendezvous::Presence::kRefused;
  return found;
}

}  // namespace

Succession::Succession(HostWatch watch, Self self, Hosting& hosting, TakeOver take_over)
    : self_(self),
      hosting_(hosting),
      take_over_(std::move(take_over)),
      watch_(std::move(watch)),
      thread_([this] { Run(); }) {
  hosting_.SetEvictHost(
      [this](const std::string& job_id, const std::string& node) { return Evict(job_id, node); });
}

Succession::~Succession() {
  hosting_.SetEvictHost(nullptr);
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Succession::OnConnected(const rendezvous::ServiceHost& host) {
  const MutexLock lock(mu_);
  const std::string news = DescribeTakeover(watch_.host(), host, self_.presence_id, self_.insecure);
  if (!news.empty()) log::Info(news);
  watch_.OnConnected(host, MonotonicNow());
  changed_.NotifyAll();
}

void Succession::OnDisconnected(Duration silent_for) {
  const MutexLock lock(mu_);
  watch_.OnDisconnected(MonotonicNow(), silent_for);
  changed_.NotifyAll();
}

void Succession::OnMembership(const rendezvous::Assignment& generation) {
  hosting_.OnMembership(generation);
  const MutexLock lock(mu_);
  last_ = generation;
}

absl::StatusOr<rendezvous::Eviction> Succession::Evict(const std::string& job_id, const std::string& node) {
  const MutexLock lock(mu_);
  if (!last_) {
    return absl::FailedPreconditionError(
        absl::StrCat("this node knows of no generation of ", rendezvous::QuotedJob(job_id)));
  }
  if (!watch_.away()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the service of ", rendezvous::QuotedJob(job_id), " answers this node: ask there, at ",
                     watch_.host().service.empty() ? "the job's endpoint" : watch_.host().service));
  }
  MT_ASSIGN_OR_RETURN(const rendezvous::Eviction eviction, ChooseHost(*last_, watch_.host(), job_id, node));
  watch_.OnEvicted();
  changed_.NotifyAll();
  return eviction;
}

void Succession::Run() {
  mu_.Lock();
  while (!stopping_) {
    const TimePoint now = MonotonicNow();
    if (watch_.TakeOver(now)) {
      // A service that refuses costs nothing; a silent one would cost a timeout.
      const bool refuses = watch_.proven_dead();
      std::vector<std::string> services;
      if (last_ && refuses) rendezvous::AppendServices(*last_, &services);
      if (last_ && !refuses) services = ServicesWithout(*last_, watch_.host());
      mu_.Unlock();
      take_over_(services);
      mu_.Lock();
    } else if (const auto host = watch_.Look(now)) {
      mu_.Unlock();
      const HostWatch::Found found = LookAt(*host);
      mu_.Lock();
      watch_.OnLooked(*host, found, MonotonicNow());
    } else if (watch_.TellHeld(now)) {
      const std::string text = last_ ? DescribeSilentHost(*last_, watch_.host()) : "";
      mu_.Unlock();
      if (!text.empty()) log::Warning(text);
      mu_.Lock();
    } else {
      const auto next = Earlier(watch_.NextDeadline(), watch_.held_due());
      changed_.WaitUntil(mu_, next.value_or(now + kRest));
    }
  }
  mu_.Unlock();
}

}  // namespace mtrun::launcher

#include "launcher/succession.h"

#include <utility>

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

Succession::Succession(HostWatch watch, TakeOver take_over)
    : take_over_(std::move(take_over)), watch_(watch), thread_([this] { Run(); }) {}

Succession::~Succession() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Succession::OnConnected(const rendezvous::ServiceHost& host) {
  const MutexLock lock(mu_);
  watch_.OnConnected(host, MonotonicNow());
  changed_.NotifyAll();
}

void Succession::OnDisconnected() {
  const MutexLock lock(mu_);
  watch_.OnDisconnected(MonotonicNow());
  changed_.NotifyAll();
}

void Succession::OnMembership(const rendezvous::Assignment& generation) {
  const MutexLock lock(mu_);
  services_.clear();
  rendezvous::AppendServices(generation, &services_);
}

void Succession::Run() {
  mu_.Lock();
  while (!stopping_) {
    const TimePoint now = MonotonicNow();
    if (const auto host = watch_.Look(now)) {
      mu_.Unlock();
      const HostWatch::Found found = LookAt(*host);
      mu_.Lock();
      watch_.OnLooked(*host, found, MonotonicNow());
    } else if (watch_.TakeOver(now)) {
      const std::vector<std::string> services = services_;
      mu_.Unlock();
      take_over_(services);
      mu_.Lock();
    } else {
      changed_.WaitUntil(mu_, watch_.NextDeadline().value_or(now + kRest));
    }
  }
  mu_.Unlock();
}

}  // namespace mtrun::launcher

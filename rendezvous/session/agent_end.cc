#include "rendezvous/session/agent_end.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {

bool AgentEnd::CloseStream() { return std::exchange(welcomed_, false); }

void AgentEnd::OnWelcome(uint64_t id, bool resumed, uint64_t acknowledged) {
  welcomed_ = true;
  welcomed_by_ = id;
  // A generation that begins before the first answer to a heartbeat has a lease already, however late.
  heard_ = std::max(heard_, said_hello_);
  if (resumed) {
    outbox.Acknowledge(acknowledged);
    outbox.Resume();
  } else {
    outbox.StartOver();
    receiver.StartOver();
  }
}

std::optional<Duration> AgentEnd::TakeLease(const Lease& lease) {
  heard_ = std::max(heard_, lease.sent);
  if (lease.authority) HeardByTheJob(lease.sent);
  outbox.OnSettled(lease.settled);
  const bool runs = lease.generation.number > 0 && lease.generation == outbox.current();
  return runs && heard_ > Duration::zero() ? std::optional(heard_) : std::nullopt;
}

std::optional<Duration> AgentEnd::OutsideLease(const Lease& lease) const {
  const Generation left = outbox.seen();
  const bool waits = left.number > 0 && outbox.current().number == 0 && outbox.known() == left;
  return waits && lease.authority && lease.newest == left ? std::optional(lease.sent) : std::nullopt;
}

std::optional<Duration> AgentEnd::FirstLease() {
  if (heard_ == Duration::zero()) return std::nullopt;
  HeardByTheJob(heard_);
  return heard_;
}

void AgentEnd::HeardByTheJob(Duration sent) {
  had_job_ = std::max(had_job_, sent);
  host_dead_.reset();
}

void AgentEnd::OnHostDead(Duration now) {
  if (!host_dead_) host_dead_ = now;
}

Duration AgentEnd::Silence(Duration now) const {
  constexpr Duration kNever(kMaxNanoseconds);
  if (had_job_ == Duration::zero()) return kNever;
  return std::clamp(host_dead_.value_or(now) - had_job_, Duration::zero(), kNever);
}

std::string AgentEnd::Describe() const {
  return absl::StrCat(welcomed_ ? "welcomed" : "not welcomed", "; to the service: ", outbox.Describe(),
                      "; from it: ", receiver.Describe());
}

}  // namespace mtrun::rendezvous

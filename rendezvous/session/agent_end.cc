#include "rendezvous/session/agent_end.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {

bool AgentEnd::CloseStream() { return std::exchange(welcomed_, false); }

void AgentEnd::OnWelcome(uint64_t id, bool resumed, uint64_t acknowledged) {
  welcomed_ = true;
  welcomed_by_ = id;
  // A generation that begins before the first heartbeat is answered has a lease already, after whatever time.
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
  if (lease.authority) had_job_ = std::max(had_job_, lease.sent);
  const bool runs = lease.generation.number > 0 && lease.generation == outbox.current();
  return runs && heard_ > Duration::zero() ? std::optional(heard_) : std::nullopt;
}

std::optional<Duration> AgentEnd::FirstLease() {
  if (heard_ == Duration::zero()) return std::nullopt;
  return had_job_ = heard_;
}

Duration AgentEnd::LeaseLeft(Duration now, Duration lease) const {
  if (had_job_ == Duration::zero()) return had_job_;
  if (lease == Duration::zero()) return Duration(kMaxNanoseconds);  // it never ends
  return std::max(Duration::zero(), had_job_ + lease - now);
}

std::string AgentEnd::Describe() const {
  return absl::StrCat(welcomed_ ? "welcomed" : "not welcomed", "; to the service: ", outbox.Describe(),
                      "; from it: ", receiver.Describe());
}

}  // namespace mtrun::rendezvous

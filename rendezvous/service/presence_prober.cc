#include "rendezvous/service/presence_prober.h"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rendezvous/service/presence_call.h"

namespace mtrun::rendezvous {
namespace {

using State = PresenceCall::State;

class PresenceProber {
 public:
  PresenceProber(const std::map<std::string, PresenceProbe>& members, Duration patience)
      : patience_(patience), next_(members.begin()), end_(members.end()) {}

  ProbeResult Run() {
    Fill();
    while (!open_.empty()) {
      Await();
      std::erase_if(open_, [this](const PresenceCall& call) { return TakeResult(call); });
      Fill();
    }
    return std::move(found_);
  }

 private:
  /// Starts as many calls as may be open at once.
  void Fill() {
    for (; next_ != end_ && open_.size() < kPresenceCallsAtOnce; ++next_) {
      const auto& [node_id, probe] = *next_;
      AddressList addresses = AddressesOf(probe.endpoint);
      PresenceCall call(node_id, probe.id, std::move(addresses), MonotonicNow() + patience_);
      if (!TakeResult(call)) open_.push_back(std::move(call));
    }
  }

  /// Limits all lookups of names to `patience` in sum, so that a hanging resolver does not block the rest.
  AddressList AddressesOf(const std::string& text) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) return AddressList(nullptr, &freeaddrinfo);
    AddressList numeric = Resolve(*endpoint, AI_NUMERICHOST);
    if (numeric || looked_up_ >= patience_) return numeric;
    const TimePoint begin = MonotonicNow();
    AddressList named = Resolve(*endpoint);
    looked_up_ += MonotonicNow() - begin;
    return named;
  }

  void Await() {
    std::vector<pollfd> ready;
    for (const PresenceCall& call : open_) ready.push_back({call.fd(), POLLIN, 0});
    // All have the same timeout, so the oldest one's ends first.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(open_.front().deadline() - MonotonicNow());
    poll(ready.data(), ready.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
    const TimePoint now = MonotonicNow();
    for (size_t i = 0; i < open_.size(); ++i) {
      if (ready[i].revents != 0) open_[i].OnReady();
      open_[i].OnTime(now);
    }
  }

  /// Returns true if the call has ended.
  bool TakeResult(const PresenceCall& call) {
    if (call.state() == State::kAlive) found_.alive.insert(call.node_id());
    if (call.state() == State::kDead) found_.dead.insert(call.node_id());
    return call.state() != State::kOpen;
  }

  const Duration patience_;
  std::map<std::string, PresenceProbe>::const_iterator next_;
  const std::map<std::string, PresenceProbe>::const_iterator end_;
  Duration looked_up_ = Duration::zero();
  std::vector<PresenceCall> open_;  // oldest first
  ProbeResult found_;
};

}  // namespace

ProbeResult ProbePresence(const std::map<std::string, PresenceProbe>& members, Duration patience) {
  return PresenceProber(members, patience).Run();
}

}  // namespace mtrun::rendezvous

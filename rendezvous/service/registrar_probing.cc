// Probing for the jobs: one thread, one job after the other.
#include <asio/post.hpp>
#include <utility>

#include "base/log.h"
#include "base/start_thread.h"
#include "rendezvous/service/peer_prober.h"
#include "rendezvous/service/registrar.h"

namespace mtrun::rendezvous {
namespace {

constexpr Duration kThreadPause = std::chrono::seconds(1);  // if the system has no threads left

}  // namespace

Registrar::~Registrar() {
  if (prober_.joinable()) prober_.join();
}

void Registrar::ConsiderProbing() {
  if (probing_) return;
  const TimePoint now = MonotonicNow();
  if (now < considered_ + kConsiderPause) return ArmProbeTimer(considered_ + kConsiderPause);
  considered_ = now;
  std::vector<ProbeRequest> wanted;
  std::optional<TimePoint> later;
  for (const auto& [job_id, job] : jobs_.jobs()) {
    std::optional<ProbeRequest> request = job.WantsProbe();
    if (!request) continue;
    const TimePoint due = last_probe_ + job.ProbeInterval();
    if (due <= now) wanted.push_back(*std::move(request));
    if (due > now && (!later || due < *later)) later = due;
  }
  if (wanted.empty()) {
    if (later) ArmProbeTimer(*later);
    return;
  }
  if (prober_.joinable()) prober_.join();
  probing_ = StartThread(&prober_, [this, wanted = std::move(wanted)] { Probe(wanted); });
  if (probing_) return;
  if (!std::exchange(complained_, true))
    log::Warning("there are no threads left to probe other services and nodes; trying again");
  ArmProbeTimer(now + kThreadPause);
}

void Registrar::ArmProbeTimer(TimePoint due) {
  if (probe_armed_for_ && *probe_armed_for_ <= due) return;
  probe_armed_for_ = due;
  probe_timer_.expires_at(due);
  probe_timer_.async_wait([this](const std::error_code& error) {
    if (error) return;
    probe_armed_for_.reset();
    ConsiderProbing();
  });
}

// Runs on its own thread, because a silent peer takes time. Each job gets its result at once, however long
// the next ones take: knowledge of other services is soon too old to decide by.
void Registrar::Probe(const std::vector<ProbeRequest>& wanted) {
  const ProbeOptions options{service_id_, options_.insecure, options_.token, own_endpoint_};
  for (const ProbeRequest& request : wanted) {
    const TimePoint began = MonotonicNow();
    ProbeResult result = ProbePeers(request, options);
    asio::post(loop_, [this, job_id = request.job_id, began, last = &request == &wanted.back(),
                       result = std::move(result)]() mutable {
      const TimePoint now = MonotonicNow();
      if (last) {
        probing_ = false;
        last_probe_ = now;
      }
      result.took = now - began;
      Step(job_id, Event{"", std::move(result)});
    });
  }
}

}  // namespace mtrun::rendezvous

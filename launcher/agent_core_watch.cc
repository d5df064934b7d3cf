// The agent's core: workers that stand still while others wait for them.
#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "launcher/agent_core.h"

namespace mtrun::launcher {

/// Who is expected to move on, or to say that it waits for others: members of a running generation, and fresh
/// workers until they are ready.
bool AgentCore::IsWatched(const Worker& worker) const {
  if (worker.life != Worker::Life::kRunning || !worker.regroups() || worker.hung || Draining()) return false;
  if (worker.member()) return phase_ == Phase::kRunning && !worker.done() && !worker.said_leaving;
  return !worker.warm && (phase_ == Phase::kRunning || phase_ == Phase::kRegrouping);
}

void AgentCore::Moved(int local_rank) {
  Worker& worker = *Find(local_rank);
  if (std::exchange(worker.named, false))
    Log(log::Level::kInfo,
        absl::StrCat(WhoStandsStill(local_rank), " goes on after ", HumanDuration(now_ - worker.moved)));
  worker.moved = now_;
}

std::optional<TimePoint> AgentCore::NextLook() const {
  std::optional<TimePoint> next;
  for (const Worker& worker : workers_) {
    if (!IsWatched(worker)) continue;
    for (const Duration after :
         {worker.named ? Duration::zero() : config_.hang_notice, config_.hang_timeout}) {
      if (after == Duration::zero()) continue;
      if (!next || worker.moved + after < *next) next = worker.moved + after;
    }
  }
  return next;
}

void AgentCore::LookForHangs() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (!IsWatched(worker)) continue;
    const int local_rank = static_cast<int>(i);
    const Duration still = now_ - worker.moved;
    const bool hung = config_.hang_timeout > Duration::zero() && still >= config_.hang_timeout;
    const bool notice = config_.hang_notice > Duration::zero() && still >= config_.hang_notice;
    if (!hung && (worker.named || !notice)) continue;
    std::string text =
        absl::StrCat(WhoStandsStill(local_rank), " has stood still for ", HumanDuration(still));
    if (worker.member()) absl::StrAppend(&text, " behind step ", worker.steps);
    if (hung) absl::StrAppend(&text, " (--hang_timeout): killing it");
    worker.named = true;
    worker.standstill = text;
    Emit(InspectWorker{local_rank, std::move(text)});
    worker.hung = hung;
    if (hung) Emit(SignalWorker{local_rank, SIGKILL});
  }
}

void AgentCore::ShowStandstills() {
  std::string note;
  for (const Worker& worker : workers_) {
    if (worker.named && IsWatched(worker))
      absl::StrAppend(&note, note.empty() ? "" : "; ", worker.standstill);
  }
  if (note != note_) Emit(ShowNote{note_ = note});
}

/// Its agent kills who stands still. Where nobody does and all wait, their group has broken in silence.
void AgentCore::OnWorker(int local_rank, const channel::Waiting& waiting) {
  Moved(local_rank);
  const bool current = assignment_ && assignment_->generation == waiting.generation;
  if (!current || config_.hang_timeout == Duration::zero()) return;
  const Duration waited = FromSeconds(waiting.seconds);
  if (waited < config_.hang_timeout + kStuckGrace) return;
  ReportBroken(local_rank, absl::StrCat("a collective has waited for ", HumanDuration(waited),
                                        " although nobody stands still"));
}

std::string AgentCore::WhoStandsStill(int local_rank) const {
  const Worker& worker = workers_[static_cast<size_t>(local_rank)];
  const std::string rank = worker.member() ? absl::StrCat("rank ", worker.rank, " (local ", local_rank, ")")
                                           : absl::StrCat("local rank ", local_rank, " (without a rank yet)");
  return absl::StrCat(rank, " on ", config_.offer.host);
}

}  // namespace mtrun::launcher

// The agent's core: workers ahead of their generation (AgentConfig::warm_up).
#include <algorithm>
#include <csignal>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "launcher/agent_core.h"

namespace mtrun::launcher {

/// This node has no worker yet, or none any more: it says that it is here, and offers its workers when all
/// are ready.
void AgentCore::BeginWarmUp() {
  phase_ = Phase::kRegrouping;
  workers_.assign(static_cast<size_t>(config_.offer.workers), Worker{.life = Worker::Life::kGone});
  MakeOffer(true);
  StartFreshWorkers();
}

/// Gives `count` of the workers a rank: those who were in the last generation first, then those who are
/// ready. Fewer may be left than were offered; then fresh ones fill the places as soon as they can.
void AgentCore::ChooseMembers(size_t count) {
  std::vector<size_t> slots(workers_.size());
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = i;
  const auto worth = [this](size_t slot) {
    const Worker& worker = workers_[slot];
    const bool alive = worker.life == Worker::Life::kRunning;
    return alive && worker.member() ? 3 : alive && worker.warm ? 2 : !worker.given_up ? 1 : 0;
  };
  std::stable_sort(slots.begin(), slots.end(), [&](size_t a, size_t b) { return worth(a) > worth(b); });
  slots.resize(count);
  std::sort(slots.begin(), slots.end());
  for (Worker& worker : workers_) worker.rank = -1;
  int rank = assignment_->members[member_].first_rank;
  for (const size_t slot : slots) workers_[slot].rank = rank++;
}

/// A slot whose worker is gone gets another one at once, unless its generation still has to hear of the
/// death.
void AgentCore::StartFreshWorkers() {
  if (Draining() || exit_) return;
  std::vector<int> slots;
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Worker& worker = workers_[i];
    if (worker.life != Worker::Life::kGone || worker.given_up || (worker.member() && !worker.due)) continue;
    slots.push_back(static_cast<int>(i));
    workers_[i] = Worker{.presumed = true, .rank = worker.rank, .moved = now_};
  }
  if (slots.empty()) return;
  const auto due = [](const Worker& worker) { return worker.due; };
  if (std::none_of(workers_.begin(), workers_.end(), due)) start_deadline_.reset();
  Emit(StartWorkers{MadeUpAssignment(), 0, std::move(slots), /*ahead=*/true});
}

/// What a worker finds in its environment before there is a generation for it. It believes the channel.
rendezvous::Assignment AgentCore::MadeUpAssignment() const {
  rendezvous::Member self;
  self.node_id = config_.offer.node_id;
  self.host = config_.offer.host;
  self.address = config_.offer.address;
  self.role = config_.offer.role;
  self.workers = config_.offer.workers;
  rendezvous::Assignment assignment;
  assignment.generation.number = last_number_ == 0 ? 0 : last_number_ + 1;
  assignment.world_size = self.workers;
  assignment.master_address = self.address;
  assignment.restart_count = restart_count_;
  assignment.members.push_back(std::move(self));
  return assignment;
}

int AgentCore::WorkersToOffer() const {
  if (!config_.warm_up) return config_.offer.workers;
  int members = 0, warm = 0, pending = 0;
  for (const Worker& worker : workers_) {
    const bool alive = worker.life == Worker::Life::kRunning;
    if (alive && worker.member()) {
      ++members;
    } else if (alive && worker.warm) {
      ++warm;
    } else if (!worker.given_up) {
      ++pending;
    }
  }
  if (phase_ == Phase::kRegrouping) return members > 0 || pending == 0 ? members + warm : 0;
  // A generation runs: the dead of it are its own matter, and the fresh come in all together.
  const int now = assignment_ ? assignment_->members[member_].workers : 0;
  return pending == 0 && phase_ == Phase::kRunning ? std::max(now, members + warm) : now;
}

void AgentCore::OfferWhatIsReady() {
  if (Draining() || exit_) return;
  const bool may_grow = phase_ == Phase::kRunning && !failure_ && !break_reported_;
  if (phase_ != Phase::kRegrouping && !may_grow) return;
  if (WorkersToOffer() != offered_) MakeOffer(false);
}

void AgentCore::OnExitAheadOfItsTurn(const WorkerExited& event) {
  Worker& worker = *Find(event.local_rank);
  int& deaths = early_deaths_[static_cast<size_t>(event.local_rank)];
  Emit(SignalWorker{event.local_rank, SIGKILL});  // whatever it left behind
  if (Draining()) return;
  const auto carries = [](const Worker& w) { return w.life == Worker::Life::kRunning && w.member(); };
  const bool others = std::any_of(workers_.begin(), workers_.end(), carries);
  if (worker.exited_with_0 && !others) {  // it had something else to do than to train
    exit_ = Exit{0, std::nullopt};
    SayGoodbye(absl::StrCat(config_.offer.host, " has nothing to train"));
    return BeginStop(0, Next::kExit);
  }
  const rendezvous::WorkerFailure failure = MakeFailure(event);
  const bool wrong = event.signal == 0 && event.exit_code == rendezvous::kWrongSettingsStatus;
  worker.given_up = ++deaths >= kMaxEarlyDeaths || wrong;
  if (worker.given_up && !others) return GiveUpOnStart(failure);
  Log(log::Level::kError,
      absl::StrCat(rendezvous::Describe(failure), " before it could take part; ",
                   worker.given_up ? "this node goes on without a worker there" : "starting another"));
}

/// Nothing can be trained here. Where no generation has run yet this ends the job, for everybody with the
/// same root cause; else the others go on.
void AgentCore::GiveUpOnStart(const rendezvous::WorkerFailure& failure) {
  const std::string why = absl::StrCat(rendezvous::Describe(failure), " before it could take part");
  Log(log::Level::kError, why);
  Emit(SendToService{rendezvous::WorkerFailed{{}, failure}});
  SayGoodbye(why);
  const int code = failure.signal != 0 ? 128 + failure.signal : failure.exit_code;
  exit_ = Exit{code, rendezvous::JobOutcome{false, code, "it died before it could take part", failure}};
  BeginStop(SIGKILL, Next::kExit);  // nobody here carries anything
}

}  // namespace mtrun::launcher

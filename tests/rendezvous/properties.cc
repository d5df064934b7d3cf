#include "tests/rendezvous/properties.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::rendezvous {

std::optional<std::string> PropertyChecker::Observe(const Event& event, const std::vector<Effect>& effects,
                                                    const JobMachine& machine, TimePoint now) {
  now_ = now;
  BeforeEffects(event);
  const bool answered =
      std::holds_alternative<StreamOpened>(event.what) || std::holds_alternative<Heartbeat>(event.what);
  if (answered && present_.contains(event.node_id)) answered_at_[event.node_id] = now;
  for (const Effect& effect : effects) std::visit([&](const auto& e) { On(e); }, effect);
  AfterEffects(machine, now);
  if (std::holds_alternative<Heartbeat>(event.what)) OnHeartbeat(event.node_id, machine);
  return broken_;
}

void PropertyChecker::BeforeEffects(const Event& event) {
  if (const auto* looked = std::get_if<ProbeResult>(&event.what)) {
    answered_.insert(looked->alive.begin(), looked->alive.end());
    for (const std::string& node_id : looked->dead) {
      if (answered_.contains(node_id) || settings_.endpoints.size() > 1) dead_.insert(node_id);
    }
    for (const PeerService& peer : looked->peers) ended_elsewhere_ |= !peer.ended.empty();
  }
  const auto* asked = std::get_if<ControlAsked>(&event.what);
  if (asked != nullptr && std::holds_alternative<EvictCall>(asked->call.what)) left_.insert(asked->node_id);
  if (const auto* opened = std::get_if<StreamOpened>(&event.what)) {
    present_.insert(event.node_id);
    expected_.erase(event.node_id);
    seen_ = std::max(seen_, opened->seen.number);
    if (const auto& last = opened->last) {
      seen_ = std::max(seen_, last->generation.number);
      if (!live_ && (!last_ || last_->generation < last->generation)) BeginLast(*last, TimePoint());
    }
  }
  const auto* said = std::get_if<AgentSaid>(&event.what);
  if (said == nullptr || !present_.contains(event.node_id)) return;
  if (const auto* finished = std::get_if<WorkersFinished>(&said->event)) {
    finished_[finished->generation].insert(event.node_id);
    if (finished->final) safe_.insert(finished->generation);
  }
  if (const auto* read = std::get_if<StoreRead>(&said->event)) waiting_.insert({event.node_id, read->id});
  if (const auto* offer = std::get_if<OfferSent>(&said->event); offer != nullptr && offer->offer.holds) {
    seen_ = std::max(seen_, offer->offer.holds->number);
    if (said->held) OnHeld(event.node_id, *said->held);
  }
  if (const auto* offer = std::get_if<OfferSent>(&said->event); offer != nullptr && !offer->offer.holds) {
    if (const auto run = running_.find(event.node_id); run != running_.end() && offer->seen == run->second)
      running_.erase(run);
    if (!running_.contains(event.node_id)) out_.insert(event.node_id);
  }
  const Generation last = last_ ? last_->generation : Generation{};
  if (const auto* failed = std::get_if<WorkerFailed>(&said->event);
      failed != nullptr && failed->generation == last)
    out_.insert(event.node_id);
  if (const auto* broken = std::get_if<CollectivesBroken>(&said->event);
      broken != nullptr && broken->generation == last)
    out_.insert(event.node_id);
  if (const auto* leaving = std::get_if<Leaving>(&said->event); leaving != nullptr && !leaving->stopping) {
    left_.insert(event.node_id);
    ended_told_.erase(event.node_id);
    present_.erase(event.node_id);
    running_.erase(event.node_id);
    std::erase_if(waiting_, [&](const auto& waiter) { return waiter.first == event.node_id; });
  }
}

/// The answer renews the lease of the generation that it names, and of no other.
void PropertyChecker::OnHeartbeat(const std::string& node_id, const JobMachine& machine) {
  const Generation leased = machine.LeaseFor(node_id, Duration::zero(), now_).generation;
  const bool runs = live_ && leased == live_->generation, ran = last_ && leased == last_->generation;
  if (runs || ran) heard_[node_id] = now_;
}

void PropertyChecker::OnHeld(const std::string& node_id, const Assignment& held) {
  if (ended_told_.contains(node_id)) return;  // it stops, whatever it held
  running_[node_id] = held.generation;
  if (held.generation.number <= highest_) return;
  highest_ = held.generation.number;
  live_ = held;
  told_.clear();
  for (const Member& member : held.members) {
    told_.insert(member.node_id);
    if (!present_.contains(member.node_id)) expected_.insert(member.node_id);
  }
  restarts_ = std::max(restarts_, held.restart_count);
}

void PropertyChecker::On(const Send& send) {
  // A message for all nodes is lost if a node has no session yet; nodes that come are notified of the end
  // again.
  const bool for_all =
      std::holds_alternative<JobEnded>(send.event) || std::holds_alternative<Redirect>(send.event);
  if (for_all && expected_.contains(send.node_id)) return;
  if (!present_.contains(send.node_id))
    Broken(absl::StrCat("a message to ", send.node_id, ", which has no session"));
  std::visit(Overloaded{
                 [&](const Assigned& e) { OnAssigned(send.node_id, e.assignment()); },
                 [&](const GenerationDissolved& e) { OnDissolved(send.node_id, e); },
                 [&](const JobEnded& e) { OnEnded(send.node_id, e); },
                 [&](const StoreReply& e) { OnReply(send.node_id, e); },
                 [&](const Refused&) { left_.insert(send.node_id); },
                 [&](const Redirect&) {},
                 [&](const ControlCall&) {},
                 [&](const LogRequest&) {},
                 [&](const UseAsked&) {},
                 [&](const BudgetChanged& e) { OnBudget(e); },
                 [&](const Membership& e) {
                   for (const Member& member : e.generation.assignment().members) {
                     if (member.node_id == send.node_id)
                       Broken(absl::StrCat(send.node_id, " is no stranger"));
                   }
                 },
                 [&](const Waiting&) {
                   if (ended_) Broken(absl::StrCat(send.node_id, " is told to wait after the end"));
                 },
             },
             send.event);
}

void PropertyChecker::On(const CloseSession& close) {
  ended_told_.erase(close.node_id);
  present_.erase(close.node_id);
  expected_.erase(close.node_id);
  running_.erase(close.node_id);
  std::erase_if(waiting_, [&](const auto& waiter) { return waiter.first == close.node_id; });
}

void PropertyChecker::OnAssigned(const std::string& node_id, const Assignment& a) {
  if (ended_) Broken("an assignment after the end of the job");
  if (!live_ || live_->generation != a.generation) {
    if (a.generation.number <= highest_ || a.generation.number > std::max(highest_, seen_) + 1)
      Broken(
          absl::StrCat("generation ", a.generation.number, " after ", highest_, ", agents knew of ", seen_));
    for (const auto& [node, generation] : running_) {
      Broken(absl::StrCat(node, " still runs generation ", generation.number, " while ", a.generation.number,
                          " is assigned"));
    }
    const int nodes = static_cast<int>(a.members.size());
    if (nodes < settings_.min_nodes || nodes > settings_.max_nodes)
      Broken(absl::StrCat(nodes, " nodes in a generation"));
    int rank = 0;
    for (size_t i = 0; i < a.members.size(); ++i) {
      if (a.members[i].node_rank != static_cast<int>(i) || a.members[i].first_rank != rank)
        Broken("ranks are not contiguous");
      rank += a.members[i].workers;
    }
    if (rank != a.world_size) Broken("world size is not the number of workers");
    if (a.restart_count < restarts_ || OverBudget(a.restart_count)) Broken("restart budget");
    restarts_ = a.restart_count;
    if (live_ && told_.size() != live_->members.size()) Broken("a member was not told its assignment");
    CheckMajority();
    CheckOver();
    formed_ = a.generation;
    live_ = a;
    highest_ = a.generation.number;
    told_.clear();
  }
  if (*live_ != a) Broken("members are told different assignments");
  bool member = false;
  for (const Member& m : a.members) member = member || m.node_id == node_id;
  if (!member) Broken(absl::StrCat(node_id, " is assigned, but no member"));
  if (!told_.insert(node_id).second) Broken(absl::StrCat(node_id, " is assigned twice"));
  running_[node_id] = a.generation;
}

/// One of several services forms a generation only with more than half of those members of the last one that
/// may be alive.
void PropertyChecker::CheckMajority() {
  if (!last_ || settings_.endpoints.size() < 2 || settings_.takeover_any) return;
  size_t alive = 0, here = 0;
  for (const Member& member : last_->members) {
    const bool present = present_.contains(member.node_id);
    const bool gone = left_.contains(member.node_id) || dead_.contains(member.node_id);
    alive += present || !gone ? 1 : 0;
    here += present ? 1 : 0;
  }
  if (alive > 0 && 2 * here <= alive) Broken(absl::StrCat(here, " of ", alive, " members form a generation"));
}

/// A generation forms only if one of the last one's members is out of it for certain.
void PropertyChecker::CheckOver() {
  if (!last_) return;
  for (const Member& member : last_->members) {
    const std::string& id = member.node_id;
    if (left_.contains(id) || dead_.contains(id) || out_.contains(id)) return;
    const auto heard = heard_.find(id);
    const TimePoint since = heard == heard_.end() ? began_ : heard->second;
    if (settings_.fence_timeout > Duration::zero() && now_ - since > settings_.fence_timeout) return;
  }
  Broken(absl::StrCat("a generation forms while ", channel::ToText(last_->generation), " may run"));
}

void PropertyChecker::BeginLast(const Assignment& last, TimePoint heard) {
  last_ = last;
  began_ = heard;
  // A generation's first lease counts from the last answer to the node, whenever the generation forms
  // (AgentEnd::FirstLease).
  heard_.clear();
  for (const Member& member : last.members) {
    const auto answered = answered_at_.find(member.node_id);
    if (heard > TimePoint() && answered != answered_at_.end()) heard_.insert(*answered);
  }
  left_.clear();
  dead_.clear();
  out_.clear();
}

void PropertyChecker::OnDissolved(const std::string& node_id, const GenerationDissolved& dissolved) {
  if (ended_) Broken("a generation ends after the end of the job");
  if (dissolved.cause == Cause()) Broken("a generation ends without a reason");
  if (dissolved.restart_count < 0 || OverBudget(dissolved.restart_count)) Broken("restart budget");
  const auto running = running_.find(node_id);
  if (running != running_.end() && running->second == dissolved.generation) running_.erase(running);
}

void PropertyChecker::OnBudget(const BudgetChanged& e) {
  if (ended_) Broken("news of the budget after the end of the job");
  if (e.refunded < 0 || e.refunded > e.restart_count || e.restart_count - e.refunded > settings_.max_restarts)
    Broken("restart budget");
}

void PropertyChecker::OnEnded(const std::string& node_id, const JobEnded& ended) {
  if (!std::exchange(ended_, true) && ended.outcome.success && !ended_elsewhere_) CheckDone();
  if (!ended_told_.insert(node_id).second) Broken(absl::StrCat(node_id, " is told twice that the job ended"));
  running_.erase(node_id);
}

/// A job succeeds if all members have finished, or if one of them has reported that its result is safe.
void PropertyChecker::CheckDone() {
  const std::optional<Assignment>& done = live_ ? live_ : last_;
  if (!done) return Broken("a job ends well that never ran");
  if (safe_.contains(done->generation)) return;
  for (const Member& member : done->members) {
    if (!finished_[done->generation].contains(member.node_id))
      return Broken(absl::StrCat("the job ends well, ", member.node_id, " has not finished"));
  }
}

void PropertyChecker::OnReply(const std::string& node_id, const StoreReply& reply) {
  if (waiting_.erase({node_id, reply.id}) == 0)
    Broken(absl::StrCat(node_id, " gets a second answer to ", reply.id));
}

void PropertyChecker::AfterEffects(const JobMachine& machine, TimePoint now) {
  const JobView view = machine.View(now);
  if (live_ && live_->generation == view.generation && (!last_ || *last_ != *live_))
    BeginLast(*live_, formed_ == live_->generation ? now_ : TimePoint());
  // A read may be pending only while its generation runs (no node of these tests returns from another
  // service).
  if (view.phase != "running" && !waiting_.empty())
    Broken(absl::StrCat(waiting_.begin()->first, " waits for ever"));
  if (view.phase == "running") {
    for (const NodeView& node : view.nodes) {
      if (node.node_rank >= 0 && node.state == "member" && !running_.contains(node.node_id)) {
        Broken(absl::StrCat(node.node_id, " is a member without knowing"));
      }
    }
  } else if (!running_.empty()) {
    Broken(absl::StrCat(running_.begin()->first, " runs, the job does not"));
  }
  // A silent member of an ordinary program is kept for as long as its lease may last.
  const bool ordinary = machine.roster().attendance().ordinary();
  const Duration most = settings_.fence_timeout == Duration::zero()
                            ? Duration::max() / 4  // no lease ends
                            : settings_.fence_timeout * 51 / 50 + std::chrono::seconds(1);
  const Duration kept = std::max(settings_.OrdinaryLostAfter(), most);
  const Duration lease = ordinary ? kept : settings_.LostAfter();
  for (const NodeView& node : view.nodes) {
    if (absl::EndsWith(node.state, ", expected")) continue;  // only reported by others so far
    if (!present_.contains(node.node_id)) Broken(absl::StrCat(node.node_id, " is kept without a session"));
    // After the end of the job a node may come back for a while to learn of it, even if its lease was almost
    // over then.
    const Duration patience = lease + (ended_ ? JobMachine::kEndedLinger : Duration::zero());
    if (node.silent_for >= patience + settings_.reconnect_grace + excused_)
      Broken(absl::StrCat(node.node_id, " outlives its lease"));
  }
  if (const auto due = machine.NextDeadline(); due && *due < now) Broken("a deadline has passed");
  if (view.restart_count > settings_.max_restarts) Broken("restart budget");
}

}  // namespace mtrun::rendezvous

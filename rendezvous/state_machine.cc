#include "rendezvous/state_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace mtrun::rendezvous {
namespace {

Generation GenerationOf(const AgentEvent& event) {
  return std::visit(
      [](const auto& e) {
        if constexpr (requires { e.generation; }) return e.generation;
        return Generation{};
      },
      event);
}

/// About nobody's membership.
bool IsQuiet(const Event& event) {
  if (std::holds_alternative<Heartbeat>(event.what)) return true;
  const auto* said = std::get_if<AgentSaid>(&event.what);
  return said != nullptr &&
         (std::holds_alternative<StoreSet>(said->event) || std::holds_alternative<StoreRead>(said->event) ||
          std::holds_alternative<StepsCommitted>(said->event));
}

}  // namespace

JobMachine::JobMachine(JobSettings settings, Options options)
    : settings_(std::move(settings)), options_(options) {}

std::vector<Effect> JobMachine::Step(const Event& event, TimePoint now) {
  if (IsQuiet(event)) {  // nothing that Settle or an invariant is about; there are very many of them
    std::visit([&](const auto& what) { On(event.node_id, what, now); }, event.what);
    return std::exchange(effects_, {});
  }
  CheckInvariants();
  const auto before = std::make_pair(phase_, current());
  std::visit([&](const auto& what) { On(event.node_id, what, now); }, event.what);
  Settle(now);
  if (!phase_since_ || before != std::make_pair(phase_, current())) phase_since_ = now;
  CheckInvariants();
  return std::exchange(effects_, {});
}

// ---- events ----

void JobMachine::On(const std::string& node_id, const StreamOpened& event, TimePoint now) {
  if (const auto differing = DifferingSettings(settings_, event.settings); !differing.empty()) {
    return Refuse(node_id, absl::StrCat("settings differ from those the job \"", settings_.job_id,
                                        "\" began with: ", absl::StrJoin(differing, "; "),
                                        "; give every node the same"));
  }
  const auto known = nodes_.find(node_id);
  if (known == nodes_.end() && phase_ == Phase::kEnded) {
    return Refuse(node_id,
                  absl::StrCat("job \"", settings_.job_id, "\" is over (", WhyEnded(*outcome_), ")"));
  }
  number_ = std::max(number_, event.seen.number);
  RaiseRestarts(event.seen_restarts, event.seen_refunds);
  Node& node = nodes_[node_id];
  node.connected = true;
  Touch(node, now);
  // What was sent to a node that had no session yet was lost.
  if (std::exchange(node.expected, false) && phase_ == Phase::kEnded) SendTo(node_id, JobEnded{*outcome_});
}

void JobMachine::On(const std::string& node_id, const StreamClosed& event, TimePoint now) {
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end() || !node->second.connected) return;
  node->second.connected = false;
  node->second.closed_why = event.why;
  node->second.lost_at = now + settings_.reconnect_grace;
  node->second.extensions = 0;
}

void JobMachine::On(const std::string& node_id, const Heartbeat& event, TimePoint now) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end()) return;
  Node& node = found->second;
  Touch(node, now);
  const bool was_stuck = node.main_loop_age >= kStuckMainLoop;
  node.main_loop_age = event.main_loop_age;
  if (node.note != event.note) node.note = event.note, node.noted_at = now;
  if (event.main_loop_age >= kStuckMainLoop && !was_stuck) {
    Log(absl::StrCat(Name(node_id), " is alive, but its main loop has not turned for ",
                     HumanDuration(event.main_loop_age)));
  }
}

void JobMachine::On(const std::string& node_id, const AgentSaid& said, TimePoint now) {
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end()) return;  // it has left, or is lost and its stream is being closed
  Touch(node->second, now);
  if (const auto* offer = std::get_if<OfferSent>(&said.event))
    return OnOffer(node_id, offer->offer, said, now);
  if (const auto* leaving = std::get_if<Leaving>(&said.event)) return OnLeaving(node_id, *leaving, now);
  OnReport(node_id, said.event, now);
}

void JobMachine::On(const std::string&, const Tick&, TimePoint now) {
  // A late tick means that this machine was stopped or overloaded: its nodes may have spoken without being
  // heard yet.
  if (const auto due = NextDeadline(); due && now - *due > settings_.heartbeat_interval / 5)
    ExtendLeases(now - *due, now);
  ExpireNodes(now);
}

void JobMachine::OnOffer(const std::string& node_id, const Offer& offer, const AgentSaid& said,
                         TimePoint now) {
  if (phase_ == Phase::kEnded) return;  // it has been told, or is about to hear it
  if (offer.node_id != node_id) {
    Refuse(node_id,
           absl::StrCat("offer names node \"", offer.node_id, "\" over the session of \"", node_id, "\""));
    return Lose(node_id, "its offer was malformed");
  }
  if (!join_ends_) join_ends_ = now + settings_.join_timeout;
  Node& node = nodes_.at(node_id);
  if (offer.holds) {
    if (!node.offer) node.offer = offer;  // names the node in texts
    OnHeldGeneration(node_id, offer, said.held, now);
  } else {
    OnFreshOffer(node_id, offer, said.seen);
  }
  node.greeted = true;
  FlushEarly(node_id, now);
}

void JobMachine::OnFreshOffer(const std::string& node_id, const Offer& offer, const Generation& seen) {
  Node& node = nodes_.at(node_id);
  // Sent (or sent again after a reconnect) before its last assignment reached it: the offer that counts is
  // still to come.
  const auto is_self = [&](const Member& m) { return m.node_id == node_id; };
  const bool assigned = current_ && std::any_of(current_->members.begin(), current_->members.end(), is_self);
  if (assigned && node.confirmed && seen < current()) return;
  const bool ready = offer.workers > 0;  // else it is here and its workers are starting
  if (ready && !node.offered) node.arrival = ++arrivals_;
  node.offer = offer;
  node.offered = ready;
  node.starting = !ready;
  if (verdict_) node.confirmed = false;  // it has stopped already
  if (IsMember(node_id)) Dissolve(absl::StrCat(Name(node_id), " no longer runs it"));
}

void JobMachine::OnHeldGeneration(const std::string& node_id, const Offer& offer,
                                  const std::optional<Assignment>& held, TimePoint now) {
  Node& node = nodes_.at(node_id);
  if (held && !verdict_ && Adoptable(node_id, offer, *held)) Adopt(node_id, *held, now);
  number_ = std::max(number_, offer.holds->number);
  if (IsMember(node_id) && *offer.holds == current()) {
    node.confirmed = true;
    node.offer = offer;  // with more workers than it has ranks: see Settle
    return;
  }
  node.offered = false;
  // A survivor that came late: the next generation waits until it is ready too.
  if (phase_ == Phase::kForming && current_ && *offer.holds == current()) {
    for (const Member& member : current_->members) {
      if (member.node_id == node_id) node.place = member.node_rank;
    }
  }
  SendTo(node_id, GenerationDissolved{*offer.holds,
                                      absl::StrCat("the job has left ", rendezvous::Describe(*offer.holds)),
                                      restart_count_, refunded_});
}

void JobMachine::OnReport(const std::string& node_id, const AgentEvent& event, TimePoint now) {
  Node& node = nodes_.at(node_id);
  const Generation generation = GenerationOf(event);
  const auto* failed = std::get_if<WorkerFailed>(&event);
  if (failed != nullptr && generation.number == 0) return OnFailureAtStart(node_id, failed->failure, now);
  if (failed != nullptr && verdict_ && generation == current()) return Hear(node_id, failed->failure);
  if (!IsMember(node_id) || generation != current()) {
    if (failed != nullptr && generation == broken_) return OnLateFailure(node_id, failed->failure, now);
    const bool may_be_adopted = phase_ != Phase::kEnded && !node.greeted && generation > current();
    if (!may_be_adopted || node.early.size() >= kMaxEarlyReports) return AnswerStale(node_id, event);
    node.early.push_back(event);
    return;
  }
  if (failed != nullptr) return OnFailure(node_id, failed->failure, now);
  if (const auto* finished = std::get_if<WorkersFinished>(&event))
    return OnFinished(node_id, finished->final);
  if (const auto* steps = std::get_if<StepsCommitted>(&event)) return OnSteps(steps->step);
  if (const auto* broken = std::get_if<CollectivesBroken>(&event)) return OnBroken(node_id, *broken, now);
  if (const auto* set = std::get_if<StoreSet>(&event)) return Answer(store_.Set(set->key, set->value));
  const auto& read = std::get<StoreRead>(event);
  Answer(store_.Read(node_id, read.id, read.keys, read.wait));
}

void JobMachine::OnFinished(const std::string& node_id, bool final) {
  result_safe_ = result_safe_ || final;
  if (!finished_.insert(node_id).second) return;
  Log(absl::StrCat(Name(node_id), " finished (", finished_.size(), " of ", current_->members.size(), ")"));
}

void JobMachine::OnLeaving(const std::string& node_id, const Leaving& leaving, TimePoint now) {
  const std::string what = absl::StrCat(Name(node_id), " leaves: ", leaving.why);
  Log(what);
  left_.insert(node_id);
  breaks_ = 0;  // what broke the last generation may have been this
  pause_ends_.reset();
  // Its waiters go with it: an agent that has said goodbye expects nothing more.
  store_.DropNode(node_id);
  nodes_.erase(node_id);
  if (phase_ == Phase::kEnded) return;
  if (leaving.fails_job) {
    return End(JobOutcome{false, leaving.exit_code != 0 ? leaving.exit_code : 1, what, std::nullopt}, now);
  }
  if (IsMember(node_id)) MemberGone(node_id, what);
  // With nobody left there is nobody to tell; the outcome is for the log.
  if (nodes_.empty() && phase_ != Phase::kEnded && finished_.empty() && !verdict_ && MayRegroup(nullptr)) {
    End(JobOutcome{false, 1, absl::StrCat("every node has left, the last one: ", what), std::nullopt}, now);
  }
}

// ---- looking things up ----

FormationInput JobMachine::MakeFormationInput(bool whole) const {
  FormationInput input;
  input.min_nodes = settings_.min_nodes;
  input.max_nodes = settings_.max_nodes;
  input.first = !formed_;
  input.last_call_ends = last_call_ends_;
  input.recovery_ends = RecoveryEnds();
  const size_t most_names = nodes_.size() > kFewNodes ? 3 : kFewNodes;
  size_t ready = 0, starting = 0, awaited = 0;
  for (const auto& [node_id, node] : nodes_) {
    if (node.offered && node.connected) {
      ++ready;
      if (whole) {
        input.ready.push_back(
            Candidate{node_id, node.offer->host, node.offer->node_rank, node.place, node.arrival});
      }
    } else if (node.starting && node.connected) {
      if (++starting <= most_names) input.starting.push_back(ShortName(node_id));
    } else if (node.place) {
      if (++awaited <= most_names) input.awaited.push_back(ShortName(node_id));
    }
  }
  input.ready.resize(ready);
  const auto cut = [&](std::vector<std::string>& names, size_t count) {
    if (count > names.size()) names.push_back(absl::StrCat("and ", count - names.size(), " more"));
  };
  cut(input.awaited, awaited);
  cut(input.starting, starting);
  return input;
}

bool JobMachine::Adoptable(const std::string& reporter, const Offer& offer, const Assignment& held) const {
  const size_t nodes = held.members.size();
  const auto is_reporter = [&](const Member& m) { return m.node_id == reporter; };
  return held.generation == *offer.holds && held.generation > current() &&
         held.generation.number >= number_ && ValidateAssignment(held).ok() &&
         nodes >= static_cast<size_t>(settings_.min_nodes) &&
         nodes <= static_cast<size_t>(settings_.max_nodes) &&
         std::any_of(held.members.begin(), held.members.end(), is_reporter);
}

bool JobMachine::IsMember(const std::string& node_id) const {
  if (phase_ != Phase::kRunning) return false;
  return std::any_of(current_->members.begin(), current_->members.end(),
                     [&](const Member& m) { return m.node_id == node_id; });
}

bool JobMachine::AllConfirmed() const {
  return std::all_of(current_->members.begin(), current_->members.end(), [&](const Member& m) {
    const auto node = nodes_.find(m.node_id);
    return node != nodes_.end() && node->second.confirmed;
  });
}

/// Among very many nodes finding out whether the host alone names one takes too long.
std::string JobMachine::ShortName(const std::string& node_id) const {
  const std::optional<Offer>& offer = nodes_.at(node_id).offer;
  return nodes_.size() > kFewNodes && offer && !offer->host.empty() ? offer->host : Name(node_id);
}

std::string JobMachine::Name(const std::string& node_id) const {
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end() || !node->second.offer) return node_id;
  const std::string& host = node->second.offer->host;
  const auto same_host = [&](const auto& entry) {
    return entry.second.offer && entry.second.offer->host == host;
  };
  return host.empty() || std::count_if(nodes_.begin(), nodes_.end(), same_host) > 1 ? node_id : host;
}

void JobMachine::Touch(Node& node, TimePoint now) const {
  node.heard_at = now;
  node.extensions = 0;
  // A broken stream is judged by its grace alone: what was read from it last does not revive it.
  if (node.connected) node.lost_at = now + Lease();
}

}  // namespace mtrun::rendezvous

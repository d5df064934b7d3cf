// The decisions of the state machine: what follows from its state once an event is in it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "base/status_macros.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {

void JobMachine::Settle(TimePoint now) {
  if (verdict_ && phase_ != Phase::kEnded) return SettleVerdict(now);
  if (phase_ == Phase::kRunning) {
    const auto done = [&](const Member& m) { return finished_.contains(m.node_id); };
    if (std::all_of(current_->members.begin(), current_->members.end(), done)) {
      return End(JobOutcome{true, 0,
                            current_->members.size() == 1
                                ? std::string("its node finished")
                                : absl::StrCat("all ", current_->members.size(), " nodes finished"),
                            std::nullopt},
                 now);
    }
    if (const std::string who = WhoIsReadyToJoin(); !who.empty()) Dissolve(who, /*gentle=*/true);
  }
  if (phase_ == Phase::kForming) SettleForming(now);
  if (phase_ != Phase::kEnded) UpdateWaiting(now);
}

/// Workers of a member, or a node, that the running generation can take in; "" for none.
std::string JobMachine::WhoIsReadyToJoin() const {
  if (!finished_.empty() || !AllConfirmed()) return "";
  for (const Member& member : current_->members) {
    const int ready = nodes_.at(member.node_id).offer->workers;
    if (ready > member.workers) {
      return absl::StrCat(Name(member.node_id), " has ", ready, " workers ready, ", member.workers,
                          " of them in it");
    }
  }
  if (current_->members.size() >= static_cast<size_t>(settings_.max_nodes)) return "";
  const auto joiner = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
    return entry.second.offered && entry.second.connected && !IsMember(entry.first);
  });
  return joiner == nodes_.end() ? "" : absl::StrCat(Name(joiner->first), " joins");
}

void JobMachine::SettleForming(TimePoint now) {
  if (!formed_) {
    const auto ready = MakeFormationInput(false).ready.size();
    if (ready < static_cast<size_t>(settings_.min_nodes)) {
      last_call_ends_.reset();
    } else if (!last_call_ends_) {
      last_call_ends_ = now + settings_.last_call;
    }
  }
  FormationDecision decision = DecideFormation(MakeFormationInput(false), now);
  if (decision.form && Listed() && !formed_ && now < RecoveryEnds()) {
    // Even with everybody here: whoever runs an older generation shows up at one of the services first.
    decision.form = false;
    decision.retry_at = RecoveryEnds();
    decision.reason = "the service has just started and waits for nodes that still run";
  }
  if (decision.form && pause_ends_ && now < *pause_ends_) {
    decision.form = false;
    decision.retry_at = pause_ends_;
    decision.reason = absl::StrCat("the last ", breaks_, breaks_ == 1 ? " generation" : " generations",
                                   " broke without a step; a short pause before the next one");
  }
  if (std::string why_not; decision.form && !MayRegroup(&why_not)) {
    decision.form = false;
    decision.reason = why_not;
  }
  form_at_ = decision.retry_at;
  reason_ = decision.reason;
  if (decision.form) return Form(DecideFormation(MakeFormationInput(true), now), now);
  if (formed_) return HoldBelowMin(now);
  if (join_ends_ && now >= *join_ends_) {
    End(JobOutcome{false, 1,
                   absl::StrCat("the job did not start within ", HumanDuration(settings_.join_timeout),
                                " (join_timeout): ", decision.reason),
                   std::nullopt},
        now);
  }
}

void JobMachine::HoldBelowMin(TimePoint now) {
  const bool below = nodes_.size() < static_cast<size_t>(settings_.min_nodes);
  if (!below || settings_.min_nodes_timeout == Duration::zero()) return hold_ends_.reset();
  if (!hold_ends_) hold_ends_ = now + settings_.min_nodes_timeout;
  if (now < *hold_ends_) return;
  End(JobOutcome{false, 1,
                 absl::StrCat("fewer than ", settings_.min_nodes, " nodes for ",
                              HumanDuration(settings_.min_nodes_timeout), " (min_nodes_timeout): ", reason_),
                 std::nullopt},
      now);
}

void JobMachine::Form(const FormationDecision& decision, TimePoint now) {
  ++number_;
  const Generation generation{number_, NamedStream(options_.seed, settings_.job_id).At(number_)};
  std::vector<Offer> offers;
  for (const std::string& node_id : decision.order) offers.push_back(*nodes_.at(node_id).offer);
  current_ = MakeAssignment(generation, offers, restart_count_, refunded_);
  Remember(generation);
  BeginRunning(now);
  LogTold(absl::StrCat("forms ", rendezvous::Describe(*current_), " (", decision.reason, ")"));
  const Assigned assigned(*current_);
  for (const Member& member : current_->members) {
    Node& node = nodes_.at(member.node_id);
    node.offered = false;
    node.confirmed = true;
    node.place = member.node_rank;
    if (node.joined == 0) node.joined = generation.number;
    node.waiting_text.clear();
    SendTo(member.node_id, assigned);
  }
}

void JobMachine::BeginRunning(TimePoint now) {
  phase_ = Phase::kRunning;
  began_ = now;
  stepped_ = false;
  pause_ends_.reset();
  formed_ = true;
  form_at_.reset();
  hold_ends_.reset();
  left_.clear();
  dead_.clear();
  for (auto& [node_id, node] : nodes_) node.place.reset();
}

void JobMachine::Adopt(const std::string& reporter, const Assignment& held, TimePoint now) {
  if (phase_ == Phase::kRunning) {
    Dissolve(absl::StrCat(Name(reporter), " reports the higher ", rendezvous::Describe(held.generation)));
  }
  Log(absl::StrCat("adopts ", rendezvous::Describe(held), " (reported by ", Name(reporter), ")"));
  current_ = held;
  Remember(held.generation);
  BeginRunning(now);
  RaiseRestarts(held.restart_count, held.refunded);
  std::string stopped;
  for (const Member& member : held.members) {
    const auto [entry, created] = nodes_.try_emplace(member.node_id);
    Node& node = entry->second;
    node.confirmed = false;
    node.place = member.node_rank;
    if (node.joined == 0) node.joined = held.generation.number;
    if (node.offered) stopped = member.node_id;
    if (!created) continue;
    Offer offer;
    offer.node_id = member.node_id;
    offer.host = member.host;
    offer.address = member.address;
    offer.role = member.role;
    offer.workers = member.workers;
    node.offer = offer;
    node.expected = true;
    node.heard_at = now;
    node.lost_at = now + options_.recovery_window;
    node.closed_why = "it did not come back to the new service";
  }
  if (!stopped.empty()) Dissolve(absl::StrCat(Name(stopped), " no longer runs it"));
}

/// What agents know of the budget from an earlier service.
void JobMachine::RaiseRestarts(int count, int refunds) {
  restart_count_ = std::max(restart_count_, count);
  if (settings_.refund_steps == 0) {  // nothing is given back here, whatever an agent says
    restart_count_ = std::min(restart_count_, settings_.max_restarts);
    return;
  }
  refunded_ =
      std::min(restart_count_, std::max({refunded_, refunds, restart_count_ - settings_.max_restarts}));
}

void JobMachine::Remember(const Generation& generation) {
  issued_.push_back(generation);
  if (issued_.size() > 32) issued_.erase(issued_.begin());
}

void JobMachine::FlushEarly(const std::string& node_id, TimePoint now) {
  for (const AgentEvent& event : std::exchange(nodes_.at(node_id).early, {})) {
    const auto node = nodes_.find(node_id);
    if (node != nodes_.end()) OnReport(node_id, event, now);
  }
}

void JobMachine::Dissolve(const std::string& reason, bool gentle) {
  if (verdict_) return;  // it ends at once
  phase_ = Phase::kForming;
  reason_ = reason;
  finished_.clear();
  result_safe_ = false;
  broken_.reset();
  LogTold(absl::StrCat("dissolves ", rendezvous::Describe(current()), ": ", reason));
  Answer(store_.Close(absl::StrCat(rendezvous::Describe(current()), " is dissolved: ", reason)));
  for (const Member& member : current_->members) {
    const auto node = nodes_.find(member.node_id);
    // Who has not said that it runs this generation hears it when it does; who offers anew has stopped
    // already.
    if (node == nodes_.end() || !node->second.confirmed || node->second.offered) continue;
    SendTo(member.node_id, GenerationDissolved{current(), reason, restart_count_, refunded_, gentle});
  }
}

void JobMachine::End(JobOutcome outcome, TimePoint now) {
  phase_ = Phase::kEnded;
  verdict_.reset();
  reason_ = WhyEnded(outcome);
  LogTold(absl::StrCat("job ended: ", rendezvous::Describe(outcome)));
  Answer(store_.Close(absl::StrCat("the job has ended: ", WhyEnded(outcome))));
  outcome_ = std::move(outcome);
  broken_.reset();
  linger_ends_ = now + kEndedLinger;
  form_at_.reset();
  hold_ends_.reset();
  pause_ends_.reset();
  finished_.clear();
  for (auto& [node_id, node] : nodes_) {
    for (const AgentEvent& event : std::exchange(node.early, {})) AnswerStale(node_id, event);
    node.offered = false;
    SendTo(node_id, JobEnded{*outcome_});
  }
}

void JobMachine::Lose(const std::string& node_id, const std::string& why) {
  const std::string what = absl::StrCat(Name(node_id), " is lost: ", why);
  store_.DropNode(node_id);
  nodes_.erase(node_id);
  effects_.push_back(CloseSession{node_id});
  if (phase_ == Phase::kEnded) return;
  Log(what);
  // What broke the last generation may have been this.
  breaks_ = 0;
  pause_ends_.reset();
  if (IsMember(node_id)) MemberGone(node_id, what);
}

void JobMachine::MemberGone(const std::string& node_id, const std::string& what) {
  if (finished_.contains(node_id)) return;  // its part is done; only the goodbye is missing
  if (result_safe_) {
    finished_.insert(node_id);
    return;
  }
  Dissolve(what);
}

void JobMachine::Refuse(const std::string& node_id, const std::string& why) {
  Log(absl::StrCat("refuses ", node_id, ": ", why));
  SendTo(node_id, Refused{why});
  effects_.push_back(CloseSession{node_id});
}

void JobMachine::ExpireNodes(TimePoint now) {
  std::vector<std::pair<std::string, std::string>> lost;
  const bool lingered = linger_ends_ && now >= *linger_ends_;
  for (const auto& [node_id, node] : nodes_) {
    if (node.lost_at > now && !lingered) continue;
    lost.emplace_back(node_id, node.connected
                                   ? absl::StrCat("no heartbeat for ", HumanDuration(now - node.heard_at))
                                   : node.closed_why);
  }
  for (const auto& [node_id, why] : lost) Lose(node_id, why);
}

void JobMachine::ExtendLeases(Duration late, TimePoint now) {
  for (auto& [node_id, node] : nodes_) {
    if (node.extensions >= kMaxExtensions)
      continue;  // a machine that is always late must still find the dead
    ++node.extensions;
    const Duration chance = node.connected ? settings_.heartbeat_interval : settings_.reconnect_grace;
    node.lost_at = std::max(node.lost_at + late, now + chance);
  }
}

/// Whoever waits hears why, and what changes; among very many not every change, or each node that comes would
/// be told to all the others.
void JobMachine::UpdateWaiting(TimePoint now) {
  const bool many = nodes_.size() > kFewNodes, paced = many && now < next_news_;
  news_waits_ = false;
  std::string text;
  for (auto& [node_id, node] : nodes_) {
    if (!node.offered || !node.connected || IsMember(node_id)) continue;
    if (text.empty()) text = WaitingText();
    if (text == node.waiting_text) continue;
    news_waits_ = news_waits_ || (paced && !node.waiting_text.empty());
    if (paced && !node.waiting_text.empty()) continue;
    if (many && !node.waiting_text.empty()) next_news_ = now + kNewsPause;
    node.waiting_text = text;
    SendTo(node_id, Waiting{text});
  }
}

std::string JobMachine::WaitingText() const {
  if (phase_ == Phase::kForming) return reason_;
  if (!finished_.empty()) return "the job is finishing, no more nodes are admitted";
  const size_t members = current_->members.size();
  if (members < static_cast<size_t>(settings_.max_nodes)) {
    return "the service has just started and waits for nodes that still run";
  }
  return absl::StrCat("spare: ", members, " of at most ", settings_.max_nodes,
                      members == 1 ? " node runs" : " nodes run", "; this one takes over when one is lost");
}

void JobMachine::AnswerStale(const std::string& node_id, const AgentEvent& event) {
  const auto* read = std::get_if<StoreRead>(&event);
  if (read == nullptr) return;
  StoreReply reply;
  reply.generation = read->generation;
  reply.id = read->id;
  reply.error = absl::StrCat(rendezvous::Describe(read->generation), " is over");
  SendTo(node_id, std::move(reply));
}

void JobMachine::Answer(const std::vector<KeyValueStore::Answer>& answers) {
  for (const KeyValueStore::Answer& answer : answers) {
    SendTo(answer.node_id, StoreReply{current(), answer.id, answer.values, answer.error});
  }
}

}  // namespace mtrun::rendezvous

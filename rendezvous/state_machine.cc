#include "rendezvous/state_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/splitmix.h"
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

int ExitCodeOf(const WorkerFailure& failure) {
  if (failure.signal != 0) return 128 + failure.signal;
  return failure.exit_code != 0 ? failure.exit_code : 1;
}

std::string WithLogFile(const WorkerFailure& failure) {
  if (failure.log_file.empty()) return Describe(failure);
  return absl::StrCat(Describe(failure), ", log ", failure.host, ":", failure.log_file);
}

std::string Restarts(int count) { return absl::StrCat(count, count == 1 ? " restart" : " restarts"); }

}  // namespace

JobMachine::JobMachine(JobSettings settings, Options options) : settings_(std::move(settings)), options_(options) {}

std::vector<Effect> JobMachine::Step(const Event& event, TimePoint now) {
  CheckInvariants();
  std::visit([&](const auto& what) { On(event.node_id, what, now); }, event.what);
  Settle(now);
  CheckInvariants();
  return std::exchange(effects_, {});
}

// ---- events -------------------------------------------------------------------------------------------------------

void JobMachine::On(const std::string& node_id, const StreamOpened& event, TimePoint now) {
  if (const auto differing = DifferingSettings(settings_, event.settings); !differing.empty()) {
    return Refuse(node_id, absl::StrCat("settings differ from those the job \"", settings_.job_id, "\" began with: ",
                                        absl::StrJoin(differing, "; "), "; give every node the same"));
  }
  const auto known = nodes_.find(node_id);
  if (known == nodes_.end() && phase_ == Phase::kEnded) {
    return Refuse(node_id, absl::StrCat("job \"", settings_.job_id, "\" is over (", outcome_->reason, ")"));
  }
  number_ = std::max(number_, event.seen.number);
  restart_count_ = std::clamp(event.seen_restarts, restart_count_, settings_.max_restarts);
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
  if (event.main_loop_age >= kStuckMainLoop && !was_stuck) {
    Log(absl::StrCat(Name(node_id), " is alive, but its main loop has not turned for ", HumanDuration(event.main_loop_age)));
  }
}

void JobMachine::On(const std::string& node_id, const AgentSaid& said, TimePoint now) {
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end()) return;  // it has left, or is lost and its stream is being closed
  Touch(node->second, now);
  if (const auto* offer = std::get_if<OfferSent>(&said.event)) return OnOffer(node_id, offer->offer, said, now);
  if (const auto* leaving = std::get_if<Leaving>(&said.event)) return OnLeaving(node_id, *leaving, now);
  OnReport(node_id, said.event, now);
}

void JobMachine::On(const std::string&, const Tick&, TimePoint now) {
  // A late tick means that this machine was stopped or overloaded: its nodes may have spoken without being heard yet.
  if (const auto due = NextDeadline(); due && now - *due > settings_.heartbeat_interval / 5) ExtendLeases(now - *due, now);
  ExpireNodes(now);
}

void JobMachine::OnOffer(const std::string& node_id, const Offer& offer, const AgentSaid& said, TimePoint now) {
  if (phase_ == Phase::kEnded) return;  // it has been told, or is about to hear it
  if (offer.node_id != node_id) {
    Refuse(node_id, absl::StrCat("offer names node \"", offer.node_id, "\" over the session of \"", node_id, "\""));
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
  // Sent (or sent again after a reconnect) before its last assignment reached it: the offer that counts is still to come.
  const auto is_self = [&](const Member& m) { return m.node_id == node_id; };
  const bool assigned = current_ && std::any_of(current_->members.begin(), current_->members.end(), is_self);
  if (assigned && node.confirmed && seen < current()) return;
  if (!node.offered) node.arrival = ++arrivals_;
  node.offer = offer;
  node.offered = true;
  if (IsMember(node_id)) Dissolve(absl::StrCat(Name(node_id), " no longer runs it"));
}

void JobMachine::OnHeldGeneration(const std::string& node_id, const Offer& offer, const std::optional<Assignment>& held,
                                  TimePoint now) {
  Node& node = nodes_.at(node_id);
  if (held && Adoptable(node_id, offer, *held)) Adopt(node_id, *held, now);
  number_ = std::max(number_, offer.holds->number);
  if (IsMember(node_id) && *offer.holds == current()) {
    node.confirmed = true;
    node.offer = offer;
    return;
  }
  node.offered = false;
  SendTo(node_id, GenerationDissolved{*offer.holds, absl::StrCat("the job has left ", rendezvous::Describe(*offer.holds)),
                                      restart_count_});
}

void JobMachine::OnReport(const std::string& node_id, const AgentEvent& event, TimePoint now) {
  Node& node = nodes_.at(node_id);
  const Generation generation = GenerationOf(event);
  if (!IsMember(node_id) || generation != current()) {
    const bool may_be_adopted = phase_ != Phase::kEnded && !node.greeted && generation > current();
    if (!may_be_adopted || node.early.size() >= kMaxEarlyReports) return AnswerStale(node_id, event);
    node.early.push_back(event);
    return;
  }
  if (const auto* failed = std::get_if<WorkerFailed>(&event)) return OnFailure(node_id, failed->failure, now);
  if (const auto* finished = std::get_if<WorkersFinished>(&event)) return OnFinished(node_id, finished->final);
  if (const auto* set = std::get_if<StoreSet>(&event)) return Answer(store_.Set(set->key, set->value));
  const auto& read = std::get<StoreRead>(event);
  Answer(store_.Read(node_id, read.id, read.keys, read.wait));
}

void JobMachine::OnFailure(const std::string& node_id, const WorkerFailure& failure, TimePoint now) {
  if (result_safe_) {
    Log(absl::StrCat(WithLogFile(failure), "; the job's result is safe, so it does not matter"));
    finished_.insert(node_id);
    return;
  }
  if (restart_count_ < settings_.max_restarts) {
    ++restart_count_;
    return Dissolve(absl::StrCat(WithLogFile(failure), "; restart ", restart_count_, " of ", settings_.max_restarts));
  }
  JobOutcome outcome;
  outcome.exit_code = ExitCodeOf(failure);
  outcome.root_cause = failure;
  outcome.reason = absl::StrCat(WithLogFile(failure), "; ",
                                settings_.max_restarts == 0 ? "no restarts are allowed (max_restarts 0)"
                                                            : absl::StrCat("the budget of ", Restarts(settings_.max_restarts), " is used up"));
  End(std::move(outcome), now);
}

void JobMachine::OnFinished(const std::string& node_id, bool final) {
  result_safe_ = result_safe_ || final;
  if (!finished_.insert(node_id).second) return;
  Log(absl::StrCat(Name(node_id), " finished (", finished_.size(), " of ", current_->members.size(), ")"));
}

void JobMachine::OnLeaving(const std::string& node_id, const Leaving& leaving, TimePoint now) {
  const std::string what = absl::StrCat(Name(node_id), " leaves: ", leaving.why);
  Log(what);
  // Its waiters go with it: an agent that has said goodbye expects nothing more.
  store_.DropNode(node_id);
  nodes_.erase(node_id);
  if (phase_ == Phase::kEnded) return;
  if (leaving.fails_job) {
    return End(JobOutcome{false, leaving.exit_code != 0 ? leaving.exit_code : 1, what, std::nullopt}, now);
  }
  if (IsMember(node_id)) MemberGone(node_id, what);
  // With nobody left there is nobody to tell; the outcome is for the log.
  if (nodes_.empty() && phase_ != Phase::kEnded && finished_.empty()) {
    End(JobOutcome{false, 1, absl::StrCat("every node has left, the last one: ", what), std::nullopt}, now);
  }
}

// ---- decisions ----------------------------------------------------------------------------------------------------

void JobMachine::Settle(TimePoint now) {
  if (phase_ == Phase::kRunning) {
    const auto done = [&](const Member& m) { return finished_.contains(m.node_id); };
    if (std::all_of(current_->members.begin(), current_->members.end(), done)) {
      return End(JobOutcome{true, 0, current_->members.size() == 1
                                            ? std::string("its node finished")
                                            : absl::StrCat("all ", current_->members.size(), " nodes finished"), std::nullopt}, now);
    }
    const bool room = current_->members.size() < static_cast<size_t>(settings_.max_nodes);
    if (room && finished_.empty() && AllConfirmed()) {
      const auto joiner = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
        return entry.second.offered && entry.second.connected && !IsMember(entry.first);
      });
      if (joiner != nodes_.end()) Dissolve(absl::StrCat(Name(joiner->first), " joins"));
    }
  }
  if (phase_ == Phase::kForming) SettleForming(now);
  if (phase_ != Phase::kEnded) UpdateWaiting();
}

void JobMachine::SettleForming(TimePoint now) {
  if (!formed_) {
    const auto ready = MakeFormationInput().ready.size();
    if (ready < static_cast<size_t>(settings_.min_nodes)) {
      last_call_ends_.reset();
    } else if (!last_call_ends_) {
      last_call_ends_ = now + settings_.last_call;
    }
  }
  const FormationDecision decision = DecideFormation(MakeFormationInput(), now);
  form_at_ = decision.retry_at;
  reason_ = decision.reason;
  if (decision.form) return Form(decision);
  if (!formed_ && join_ends_ && now >= *join_ends_) {
    End(JobOutcome{false, 1,
                   absl::StrCat("the job did not start within ", HumanDuration(settings_.join_timeout), " (join_timeout): ",
                                decision.reason),
                   std::nullopt},
        now);
  }
}

void JobMachine::Form(const FormationDecision& decision) {
  ++number_;
  const Generation generation{number_, NamedStream(options_.seed, settings_.job_id).At(number_)};
  std::vector<Offer> offers;
  for (const std::string& node_id : decision.order) offers.push_back(*nodes_.at(node_id).offer);
  current_ = MakeAssignment(generation, offers, restart_count_);
  Remember(generation);
  phase_ = Phase::kRunning;
  formed_ = true;
  form_at_.reset();
  for (auto& [node_id, node] : nodes_) node.place.reset();
  Log(absl::StrCat("forms ", rendezvous::Describe(*current_), " (", decision.reason, ")"));
  for (const Member& member : current_->members) {
    Node& node = nodes_.at(member.node_id);
    node.offered = false;
    node.confirmed = true;
    node.place = member.node_rank;
    node.waiting_text.clear();
    SendTo(member.node_id, Assigned{*current_});
  }
}

void JobMachine::Adopt(const std::string& reporter, const Assignment& held, TimePoint now) {
  if (phase_ == Phase::kRunning) {
    Dissolve(absl::StrCat(Name(reporter), " reports the higher ", rendezvous::Describe(held.generation)));
  }
  Log(absl::StrCat("adopts ", rendezvous::Describe(held), " (reported by ", Name(reporter), ")"));
  current_ = held;
  Remember(held.generation);
  phase_ = Phase::kRunning;
  formed_ = true;
  form_at_.reset();
  restart_count_ = std::clamp(held.restart_count, restart_count_, settings_.max_restarts);
  for (auto& [node_id, node] : nodes_) node.place.reset();
  std::string stopped;
  for (const Member& member : held.members) {
    const auto [entry, created] = nodes_.try_emplace(member.node_id);
    Node& node = entry->second;
    node.confirmed = false;
    node.place = member.node_rank;
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

void JobMachine::Dissolve(const std::string& reason) {
  phase_ = Phase::kForming;
  reason_ = reason;
  finished_.clear();
  result_safe_ = false;
  Log(absl::StrCat("dissolves ", rendezvous::Describe(current()), ": ", reason));
  Answer(store_.Close(absl::StrCat(rendezvous::Describe(current()), " is dissolved: ", reason)));
  for (const Member& member : current_->members) {
    const auto node = nodes_.find(member.node_id);
    // Who has not said that it runs this generation hears it when it does; who offers anew has stopped already.
    if (node == nodes_.end() || !node->second.confirmed || node->second.offered) continue;
    SendTo(member.node_id, GenerationDissolved{current(), reason, restart_count_});
  }
}

void JobMachine::End(JobOutcome outcome, TimePoint now) {
  phase_ = Phase::kEnded;
  reason_ = outcome.reason;
  Log(absl::StrCat("job ended: ", rendezvous::Describe(outcome)));
  Answer(store_.Close(absl::StrCat("the job has ended: ", outcome.reason)));
  outcome_ = std::move(outcome);
  linger_ends_ = now + kEndedLinger;
  form_at_.reset();
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
    lost.emplace_back(node_id, node.connected ? absl::StrCat("no heartbeat for ", HumanDuration(now - node.heard_at))
                                              : node.closed_why);
  }
  for (const auto& [node_id, why] : lost) Lose(node_id, why);
}

void JobMachine::ExtendLeases(Duration late, TimePoint now) {
  for (auto& [node_id, node] : nodes_) {
    if (node.extensions >= kMaxExtensions) continue;  // a machine that is always late must still find the dead
    ++node.extensions;
    const Duration chance = node.connected ? settings_.heartbeat_interval : settings_.reconnect_grace;
    node.lost_at = std::max(node.lost_at + late, now + chance);
  }
}

void JobMachine::UpdateWaiting() {
  for (auto& [node_id, node] : nodes_) {
    if (!node.offered || !node.connected || IsMember(node_id)) continue;
    std::string text = WaitingText();
    if (text == node.waiting_text) continue;
    node.waiting_text = text;
    SendTo(node_id, Waiting{std::move(text)});
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

// ---- looking things up ---------------------------------------------------------------------------------------------

FormationInput JobMachine::MakeFormationInput() const {
  FormationInput input;
  input.min_nodes = settings_.min_nodes;
  input.max_nodes = settings_.max_nodes;
  input.first = !formed_;
  input.last_call_ends = last_call_ends_;
  input.recovery_ends = RecoveryEnds();
  for (const auto& [node_id, node] : nodes_) {
    if (node.offered && node.connected) {
      input.ready.push_back(Candidate{node_id, node.offer->host, node.offer->node_rank, node.place, node.arrival});
    } else if (node.place) {
      input.awaited.push_back(Name(node_id));
    }
  }
  return input;
}

bool JobMachine::Adoptable(const std::string& reporter, const Offer& offer, const Assignment& held) const {
  const size_t nodes = held.members.size();
  const auto is_reporter = [&](const Member& m) { return m.node_id == reporter; };
  return held.generation == *offer.holds && held.generation > current() && held.generation.number >= number_ &&
         ValidateAssignment(held).ok() &&
         nodes >= static_cast<size_t>(settings_.min_nodes) && nodes <= static_cast<size_t>(settings_.max_nodes) &&
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

std::string JobMachine::Name(const std::string& node_id) const {
  const auto node = nodes_.find(node_id);
  if (node == nodes_.end() || !node->second.offer) return node_id;
  const std::string& host = node->second.offer->host;
  const auto same_host = [&](const auto& entry) { return entry.second.offer && entry.second.offer->host == host; };
  return host.empty() || std::count_if(nodes_.begin(), nodes_.end(), same_host) > 1 ? node_id : host;
}

void JobMachine::Touch(Node& node, TimePoint now) const {
  node.heard_at = now;
  node.extensions = 0;
  // A broken stream is judged by its grace alone: what was read from it last does not revive it.
  if (node.connected) node.lost_at = now + Lease();
}

}  // namespace mtrun::rendezvous

// The state machine looked at: invariants, text forms, the view for Status.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "rendezvous/overloaded.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {
namespace {

std::string Until(std::optional<TimePoint> when, TimePoint now) {
  return when ? absl::StrFormat("%+.3f s", ToSeconds(*when - now)) : "-";
}

}  // namespace

std::string Describe(const Event& event) {
  return std::visit(
      Overloaded{
          [&](const StreamOpened& e) {
            return absl::StrCat(event.node_id, " opens its stream",
                                e.seen.number > 0 ? absl::StrCat(", has seen ", Describe(e.seen)) : "");
          },
          [&](const StreamClosed& e) { return absl::StrCat(event.node_id, " closes its stream: ", e.why); },
          [&](const Heartbeat&) { return absl::StrCat(event.node_id, " beats"); },
          [&](const AgentSaid& e) { return absl::StrCat(event.node_id, " says ", Describe(e.event)); },
          [&](const Tick&) { return std::string("tick"); },
          [&](const LookedAround&) { return std::string("looked around"); },
      },
      event.what);
}

std::string Describe(const Effect& effect) {
  return std::visit(Overloaded{
                        [](const Send& e) { return absl::StrCat("-> ", e.node_id, ": ", Describe(e.event)); },
                        [](const CloseSession& e) { return absl::StrCat("close ", e.node_id); },
                        [](const LogLine& e) { return absl::StrCat("log: ", e.text); },
                    },
                    effect);
}

std::optional<TimePoint> JobMachine::NextDeadline() const {
  std::optional<TimePoint> next;
  const auto consider = [&](std::optional<TimePoint> when) {
    if (when && (!next || *when < *next)) next = when;
  };
  for (const auto& [node_id, node] : nodes_) consider(node.lost_at);
  if (phase_ == Phase::kForming) {
    consider(form_at_);
    if (!formed_) consider(join_ends_);
    consider(hold_ends_);
  }
  if (verdict_) consider(verdict_->due);
  if (news_waits_ && phase_ != Phase::kEnded) consider(next_news_);
  consider(linger_ends_);
  return nodes_.empty() ? std::nullopt : next;
}

void JobMachine::CheckInvariants() const {
  MT_CHECK(refunded_ >= 0 && used() >= 0 && used() <= settings_.max_restarts)
      << "restart count " << restart_count_ << ", refunded " << refunded_;
  MT_CHECK((phase_ == Phase::kEnded) == outcome_.has_value()) << settings_.job_id;
  MT_CHECK(phase_ != Phase::kEnded || !verdict_) << settings_.job_id;
  MT_CHECK(current().number <= number_) << current().number << " > " << number_;
  MT_CHECK(phase_ == Phase::kRunning || (finished_.empty() && store_.waiters().empty())) << settings_.job_id;
  if (phase_ != Phase::kRunning) return;
  const absl::Status valid = ValidateAssignment(*current_);
  MT_CHECK(valid.ok()) << valid.message();
  const int members = static_cast<int>(current_->members.size());
  MT_CHECK(members >= settings_.min_nodes && members <= settings_.max_nodes) << members << " members";
  for (const Member& member : current_->members) {
    const auto node = nodes_.find(member.node_id);
    if (verdict_) continue;  // whoever goes now goes from a job that is as good as over
    MT_CHECK(node != nodes_.end() || finished_.contains(member.node_id)) << member.node_id << " is gone";
    MT_CHECK(node == nodes_.end() || !node->second.offered) << member.node_id << " runs and offers";
  }
  for (const std::string& node_id : finished_)
    MT_CHECK(IsMember(node_id)) << node_id << " finished and is no member";
  for (const auto& waiter : store_.waiters()) {
    MT_CHECK(nodes_.contains(waiter.node_id) && IsMember(waiter.node_id))
        << waiter.node_id << " waits and is no member";
  }
}

bool JobMachine::operator==(const JobMachine& other) const {
  const auto key = [](const JobMachine& m) {
    return std::tie(m.settings_, m.options_.seed, m.options_.service_started, m.options_.recovery_window,
                    m.phase_, m.nodes_, m.arrivals_, m.number_, m.formed_, m.restart_count_, m.refunded_,
                    m.early_failures_, m.refund_mark_, m.current_, m.issued_, m.finished_, m.result_safe_,
                    m.broken_, m.verdict_, m.progressed_, m.stepped_, m.began_, m.breaks_, m.pause_ends_,
                    m.left_, m.dead_, m.peers_, m.moved_, m.hold_ends_, m.store_, m.last_call_ends_,
                    m.join_ends_, m.form_at_, m.linger_ends_, m.outcome_, m.reason_, m.phase_since_,
                    m.next_news_, m.news_waits_);
  };
  return key(*this) == key(other);
}

JobView JobMachine::View(TimePoint now) const {
  JobView view;
  view.settings = settings_;
  view.phase = phase_ == Phase::kForming ? "forming" : phase_ == Phase::kRunning ? "running" : "ended";
  view.reason = reason_;
  view.generation = current();
  view.restart_count = used();
  view.authority = MayRegroup(nullptr);
  view.phase_age = now - phase_since_.value_or(now);
  for (const auto& [node_id, node] : nodes_) {
    NodeView n;
    n.node_id = node_id;
    if (node.offer)
      n.host = node.offer->host, n.address = node.offer->address, n.workers = node.offer->workers;
    if (IsMember(node_id)) {
      const auto member = std::find_if(current_->members.begin(), current_->members.end(),
                                       [&, id = node_id](const Member& m) { return m.node_id == id; });
      n.node_rank = member->node_rank, n.first_rank = member->first_rank;
      n.state = finished_.contains(node_id) ? "finished" : node.confirmed ? "member" : "member, unconfirmed";
    } else {
      n.state = phase_ == Phase::kEnded ? "ended"
                : node.offered          ? (phase_ == Phase::kRunning ? "spare" : "ready")
                                        : "not ready";
    }
    if (!node.connected) n.state += node.expected ? ", expected" : ", away";
    n.silent_for = now - node.heard_at;
    n.main_loop_age = node.main_loop_age;
    n.note = node.note;
    if (!n.note.empty()) n.note_age = now - node.noted_at;
    view.nodes.push_back(std::move(n));
  }
  std::stable_sort(view.nodes.begin(), view.nodes.end(), [](const NodeView& a, const NodeView& b) {
    return std::make_pair(a.node_rank < 0, a.node_rank) < std::make_pair(b.node_rank < 0, b.node_rank);
  });
  return view;
}

std::string JobMachine::Describe(TimePoint now) const {
  std::string text = absl::StrCat(
      View(now).phase, ", ", rendezvous::Describe(current()), " of ", number_, formed_ ? "" : ", first",
      ", restarts ", used(), refunded_ > 0 ? absl::StrCat(" + ", refunded_) : "", ", finished {",
      absl::StrJoin(finished_, " "), "}", result_safe_ ? " safe" : "", broken_ ? ", broken" : "", "\n");
  if (current_) absl::StrAppend(&text, "  last ", rendezvous::Describe(*current_), "\n");
  if (progressed_) absl::StrAppend(&text, "  progressed", stepped_ ? ", stepped" : "", "\n");
  if (verdict_) {
    absl::StrAppend(&text, "  verdict ", Until(verdict_->due, now), ": ",
                    rendezvous::Describe(verdict_->cause), ", heard {", absl::StrJoin(verdict_->heard, " "),
                    "}\n");
  }
  if (breaks_ > 0) {
    absl::StrAppend(&text, "  breaks ", breaks_, ", began ", Until(began_, now), ", pause ends ",
                    Until(pause_ends_, now), "\n");
  }
  if (outcome_) absl::StrAppend(&text, "  outcome ", rendezvous::Describe(*outcome_), "\n");
  absl::StrAppend(&text, "  last call ", formed_ ? "-" : Until(last_call_ends_, now), ", form at ",
                  Until(form_at_, now), ", join ends ", formed_ ? "-" : Until(join_ends_, now), ", linger ",
                  Until(linger_ends_, now), "\n");
  std::vector<std::pair<uint64_t, std::string>> arrivals;
  for (const auto& [node_id, node] : nodes_) arrivals.emplace_back(node.arrival, node_id);
  std::sort(arrivals.begin(), arrivals.end());
  for (const auto& [arrival, node_id] : arrivals) {
    const Node& node = nodes_.at(node_id);
    absl::StrAppend(
        &text, "  ", node_id, node.connected ? " here" : " away", node.offered ? " ready" : "",
        node.confirmed ? " confirmed" : "", node.greeted ? "" : " new", node.expected ? " expected" : "",
        node.joined > 0 ? absl::StrCat(" since ", node.joined) : "", " place ",
        node.place ? absl::StrCat(*node.place) : "-", ", lost ", Until(node.lost_at, now), " after ",
        node.extensions, " extensions, early ", node.early.size(), ", told \"", node.waiting_text, "\"",
        node.offer ? absl::StrCat(", ", rendezvous::Describe(AgentEvent(OfferSent{*node.offer}))) : "", "\n");
  }
  for (const auto& [key, value] : store_.values()) absl::StrAppend(&text, "  store ", key, "=", value, "\n");
  for (const auto& waiter : store_.waiters()) {
    absl::StrAppend(&text, "  ", waiter.node_id, " waits for ", absl::StrJoin(waiter.keys, ","), " id ",
                    waiter.id, "\n");
  }
  return text;
}

}  // namespace mtrun::rendezvous

#include "rendezvous/session/outbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::rendezvous {

void Outbox::Add(const AgentEvent& event) {
  AgentSaid said{event, std::nullopt};
  if (const auto* offer = std::get_if<OfferSent>(&event)) {
    if (offer->offer.holds && assignment_ && assignment_->generation == *offer->offer.holds)
      said.held = assignment_;
    // An offer that was made before the newest assignment arrived does not leave its generation.
    if (!offer->offer.holds && !(offer->seen < seen_)) Leave();
  }
  sender_.Add(std::move(said));
}

void Outbox::Acknowledge(uint64_t sequence) {
  for (AgentSaid& said : sender_.Acknowledge(sequence)) {
    if (!Counts(said)) continue;
    if (const auto* set = std::get_if<StoreSet>(&said.event)) {
      sets_.insert_or_assign(set->key, *set);
    } else {
      reports_.push_back(std::move(said));
    }
  }
}

bool Outbox::Observe(const ServiceEvent& event) {
  const auto* assigned = std::get_if<Assigned>(&event);
  if (assigned != nullptr && assigned->assignment().generation.number < seen_.number) return false;
  std::visit(Overloaded{
                 [&](const Assigned& e) {
                   if (current() != e.assignment().generation) Leave();
                   assignment_ = last_ = e.assignment();
                   seen_ = e.assignment().generation;
                   SeeBudget(e.assignment().restart_count, e.assignment().refunded);
                 },
                 [&](const GenerationDissolved& e) {
                   if (assignment_ && assignment_->generation == e.generation) Leave();
                   SeeBudget(e.restart_count, e.refunded);
                 },
                 [&](const StoreReply& e) {
                   std::erase_if(reports_, [&](const AgentSaid& said) {
                     const auto* read = std::get_if<StoreRead>(&said.event);
                     return read != nullptr && read->id == e.id;
                   });
                 },
                 [&](const BudgetChanged& e) { SeeBudget(e.restart_count, e.refunded); },
                 [&](const Membership& e) {
                   const Assignment& others = e.generation.assignment();
                   if (!last_ || last_->generation < others.generation) last_ = others;
                 },
                 [](const auto&) {},
             },
             event);
  return true;
}

void Outbox::OnSettled(const Generation& generation) {
  for (std::optional<Assignment>* known : {&assignment_, &last_}) {
    if (*known && (*known)->generation == generation) (*known)->earlier.clear();
  }
}

StreamOpened Outbox::Opening(const JobSettings& settings) const {
  StreamOpened opened{settings, seen_, seen_restarts_, seen_refunds_};
  // An offer reports the generation that it runs. For others, this may be all that a new service learns of a
  // generation that runs elsewhere.
  if (!assignment_) opened.last = last_;
  if (last_) opened.incarnation = last_->incarnation;
  return opened;
}

void Outbox::SeeBudget(int restarts, int refunds) {
  seen_restarts_ = std::max(seen_restarts_, restarts);
  seen_refunds_ = std::max(seen_refunds_, refunds);
}

bool Outbox::Counts(const AgentSaid& said) const {
  const bool is_report = std::visit(Overloaded{
                                        [](const PeerUnreached&) { return false; },
                                        [](const StepsCommitted&) { return false; },
                                        [](const auto& e) {
                                          return requires { e.generation; };
                                        },
                                    },
                                    said.event);
  return is_report && assignment_ && assignment_->generation == GenerationOf(said.event);
}

void Outbox::Leave() {
  assignment_.reset();
  reports_.clear();
  sets_.clear();
}

void Outbox::StartOver() {
  std::vector<AgentSaid> unheard = sender_.Reset();
  std::erase_if(unheard, [&](const AgentSaid& said) {
    // Answered long ago, or contradicted by what the agent sends as soon as it is connected.
    const auto* offer = std::get_if<OfferSent>(&said.event);
    return offer != nullptr && offer->seen < seen_;
  });
  for (auto& [key, set] : sets_) sender_.Add(AgentSaid{std::move(set), std::nullopt});
  for (AgentSaid& said : reports_) sender_.Add(std::move(said));
  for (AgentSaid& said : unheard) sender_.Add(std::move(said));
  sets_.clear();
  reports_.clear();
}

std::string Outbox::Describe() const {
  return absl::StrCat(sender_.Describe(), "; ", sets_.size() + reports_.size(),
                      " reports for a new service; seen ", rendezvous::Describe(seen_), ", ", seen_restarts_,
                      " restarts, ", seen_refunds_, " given back");
}

}  // namespace mtrun::rendezvous

#include "rendezvous/outbox.h"

#include <algorithm>

#include "rendezvous/overloaded.h"

namespace mtrun::rendezvous {

void Outbox::Add(const AgentEvent& event) {
  AgentSaid said{event, std::nullopt, {}};
  if (const auto* offer = std::get_if<OfferSent>(&event)) {
    said.seen = seen_;
    if (offer->offer.holds && assignment_ && assignment_->generation == *offer->offer.holds)
      said.held = assignment_;
  }
  entries_.push_back(Entry{next_sequence_++, std::move(said), false, false});
}

const Outbox::Entry* Outbox::Next() {
  const auto next = std::find_if(entries_.begin(), entries_.end(),
                                 [](const Entry& e) { return !e.written && !e.acknowledged; });
  if (next == entries_.end()) return nullptr;
  next->written = true;
  return &*next;
}

void Outbox::Acknowledge(uint64_t sequence) {
  for (Entry& entry : entries_)
    entry.acknowledged = entry.acknowledged || (entry.sequence <= sequence && entry.written);
  Sweep();
}

void Outbox::Observe(const ServiceEvent& event) {
  std::visit(Overloaded{
                 [&](const Assigned& e) {
                   assignment_ = e.assignment();
                   seen_ = e.assignment().generation;
                   SeeBudget(e.assignment().restart_count, e.assignment().refunded);
                 },
                 [&](const GenerationDissolved& e) {
                   if (assignment_ && assignment_->generation == e.generation) assignment_.reset();
                   SeeBudget(e.restart_count, e.refunded);
                 },
                 [&](const StoreReply& e) {
                   std::erase_if(entries_, [&](const Entry& entry) {
                     const auto* read = std::get_if<StoreRead>(&entry.said.event);
                     return entry.acknowledged && read != nullptr && read->id == e.id;
                   });
                 },
                 [](const JobEnded&) {},
                 [](const Refused&) {},
                 [](const Waiting&) {},
                 [](const Elsewhere&) {},
                 [&](const BudgetChanged& e) { SeeBudget(e.restart_count, e.refunded); },
             },
             event);
  Sweep();
}

void Outbox::SeeBudget(int restarts, int refunds) {
  seen_restarts_ = std::max(seen_restarts_, restarts);
  seen_refunds_ = std::max(seen_refunds_, refunds);
}

bool Outbox::Held(const AgentSaid& said) const {
  const auto current = [&](const Generation& generation) {
    return assignment_ && assignment_->generation == generation;
  };
  return std::visit(Overloaded{
                        [&](const WorkerFailed& e) { return current(e.generation); },
                        [&](const WorkersFinished& e) { return current(e.generation); },
                        [&](const StoreSet& e) { return current(e.generation); },
                        [&](const StoreRead& e) { return current(e.generation); },
                        [&](const CollectivesBroken& e) { return current(e.generation); },
                        [](const StepsCommitted&) { return false; },
                        [](const OfferSent&) { return false; },
                        [](const Leaving&) { return false; },
                    },
                    said.event);
}

void Outbox::Sweep() {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.acknowledged && !Held(entry.said); });
}

void Outbox::Resume() {
  for (Entry& entry : entries_) entry.written = false;
}

void Outbox::BeginAnew() {
  std::erase_if(entries_, [&](const Entry& entry) {
    const auto* offer = std::get_if<OfferSent>(&entry.said.event);
    // Answered long ago, or contradicted by what the agent says as soon as it is connected.
    return offer != nullptr && entry.said.seen < seen_;
  });
  next_sequence_ = 1;
  for (Entry& entry : entries_) {
    entry.sequence = next_sequence_++;
    entry.written = entry.acknowledged = false;
  }
}

bool Outbox::AllAcknowledged() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.acknowledged; });
}

}  // namespace mtrun::rendezvous

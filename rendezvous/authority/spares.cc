#include "rendezvous/authority/spares.h"

#include <functional>
#include <utility>

#include "base/endpoint.h"

namespace mtrun::rendezvous {
namespace {

uint64_t DigestOfOne(const std::string& node_id, const std::string& service) {
  return std::hash<std::string>()(node_id + "\n" + service);
}

}  // namespace

uint64_t DigestOf(const Spares::Services& services) {
  uint64_t digest = 0;
  for (const auto& [node_id, service] : services) digest ^= DigestOfOne(node_id, service);
  return digest;
}

void Spares::Put(const std::string& node_id, const std::string& service) {
  OnGone(node_id);
  services_[node_id] = service;
  digest_ ^= DigestOfOne(node_id, service);
}

void Spares::OnOffer(const Offer& offer, const GenerationRecord& generation) {
  if (offer.service_port == 0 || generation.FindLast(offer.node_id) != nullptr) return;
  Put(offer.node_id, ToText(Endpoint{offer.address, offer.service_port}));
}

void Spares::OnGone(const std::string& node_id) {
  const auto known = services_.find(node_id);
  if (known == services_.end()) return;
  digest_ ^= DigestOfOne(node_id, known->second);
  services_.erase(known);
}

void Spares::OnRemembered(const Services& services) {
  for (const auto& [node_id, service] : services) Put(node_id, service);
}

void Spares::OnGeneration(const Roster& roster, const GenerationRecord& generation) {
  if (std::exchange(of_, generation.id()) == generation.id()) return;
  services_.clear();
  digest_ = 0;
  for (const auto& [node_id, node] : roster.nodes())
    if (node.offer) OnOffer(*node.offer, generation);
}

}  // namespace mtrun::rendezvous

#include "rendezvous/authority/formation.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/endpoint.h"
#include "rendezvous/authority/natural_order.h"

namespace mtrun::rendezvous {
namespace {

std::string Nodes(size_t count) { return Counted(static_cast<int64_t>(count), "node"); }
std::string Are(size_t count) { return count == 1 ? " is" : " are"; }

std::vector<Candidate> ChooseAtMost(std::vector<Candidate> ready, int max_nodes) {
  std::sort(ready.begin(), ready.end(), [](const Candidate& a, const Candidate& b) {
    return std::make_tuple(!a.place, a.arrival, a.node_id) < std::make_tuple(!b.place, b.arrival, b.node_id);
  });
  if (ready.size() > static_cast<size_t>(max_nodes)) ready.resize(max_nodes);
  return ready;
}

FormationDecision Form(const FormationInput& input, std::string reason) {
  return {true, OrderNodes(ChooseAtMost(input.ready, input.max_nodes)), std::move(reason)};
}

FormationDecision DecideFirst(const FormationInput& input, TimePoint now) {
  const TimePoint last_call_ends = input.last_call_ends.value_or(now);
  if (now < last_call_ends || now < input.recovery_ends) {
    const bool recovering = input.recovery_ends > last_call_ends;
    return PutOff(
        absl::StrCat(input.ready_nodes, " of at most ", Nodes(input.max_nodes), Are(input.ready_nodes),
                     " here; ",
                     recovering ? "the service has just started and waits for nodes that still run"
                     : input.cold_start_waits
                         ? "waiting for more, whose disks may have newer checkpoints (cold_start_wait)"
                         : "last call for more"),
        std::max(last_call_ends, input.recovery_ends));
  }
  return Form(input, absl::StrCat(input.ready_nodes, " of at most ", Nodes(input.max_nodes),
                                  " came before the last call was over"));
}

bool NewcomerLess(const Candidate& a, const Candidate& b) {
  if (a.host != b.host) return NaturalLess(a.host, b.host);
  if (a.address != b.address) return NaturalLess(a.address, b.address);
  if (a.arrival != b.arrival) return a.arrival < b.arrival;
  return NaturalLess(a.node_id, b.node_id);
}

}  // namespace

FormationDecision DecideFormation(const FormationInput& input, TimePoint now) {
  if (!input.awaited.empty()) {
    return PutOff(absl::StrCat("waiting for ", absl::StrJoin(input.awaited, ", "), " to be ready again"));
  }
  const size_t min_nodes = input.min_nodes, max_nodes = input.max_nodes, ready = input.ready_nodes;
  if (ready < min_nodes) {
    std::string text = absl::StrCat(ready, " of ", Nodes(min_nodes), Are(ready), " here; waiting for ",
                                    min_nodes - ready, " more");
    if (!input.starting.empty())
      absl::StrAppend(&text, " (workers are starting on ", absl::StrJoin(input.starting, ", "), ")");
    return PutOff(std::move(text));
  }
  if (ready >= max_nodes)
    return Form(input, max_nodes == 1 ? "the only node is here"
                                      : absl::StrCat("all ", Nodes(max_nodes), " are here"));
  if (!input.first)
    return Form(input, absl::StrCat(Nodes(ready), Are(ready), " ready again, of at least ", min_nodes));
  return DecideFirst(input, now);
}

std::vector<std::string> OrderNodes(std::vector<Candidate> nodes) {
  std::sort(nodes.begin(), nodes.end(), [](const Candidate& a, const Candidate& b) {
    if (a.place && b.place && *a.place != *b.place) return *a.place < *b.place;
    if (a.place.has_value() != b.place.has_value()) return a.place.has_value();
    return NewcomerLess(a, b);
  });
  const auto ranked =
      std::stable_partition(nodes.begin(), nodes.end(), [](const Candidate& c) { return !c.node_rank; });
  std::stable_sort(ranked, nodes.end(),
                   [](const Candidate& a, const Candidate& b) { return *a.node_rank < *b.node_rank; });
  std::vector<std::string> order;
  for (auto it = nodes.begin(); it != ranked; ++it) order.push_back(it->node_id);
  size_t next_free = 0;  // nodes with equal ranks keep their order instead of pushing each other back
  for (auto it = ranked; it != nodes.end(); ++it) {
    const size_t wanted = std::max<size_t>(next_free, std::max(0, *it->node_rank));
    const size_t place = std::min(wanted, order.size());
    order.insert(order.begin() + static_cast<ptrdiff_t>(place), it->node_id);
    next_free = place + 1;
  }
  return order;
}

Assignment MakeAssignment(const Generation& generation, const std::vector<Offer>& offers, int restart_count,
                          int refunded) {
  Assignment assignment;
  assignment.generation = generation;
  assignment.restart_count = restart_count;
  assignment.refunded = refunded;
  const auto elsewhere = std::find_if(offers.begin(), offers.end(),
                                      [](const Offer& offer) { return !offer.endpoint_address.empty(); });
  for (const Offer& offer : offers) {
    Member member;
    member.node_id = offer.node_id;
    member.host = offer.host;
    member.address = offer.address;
    // It reaches the endpoint over loopback, so it is on the endpoint's machine.
    if (elsewhere != offers.end() && offer.endpoint_address.empty() &&
        IsLoopback(offer.address, NamesAsTheySay))
      member.address = elsewhere->endpoint_address;
    member.role = offer.role;
    member.node_rank = static_cast<int>(assignment.members.size());
    member.first_rank = assignment.world_size;
    member.workers = offer.workers;
    member.presence_port = offer.presence_port;
    member.presence_id = offer.presence_id;
    member.service_port = offer.service_port;
    assignment.world_size += offer.workers;
    assignment.members.push_back(std::move(member));
  }
  if (!offers.empty()) {
    assignment.master_address = assignment.members.front().address;
    assignment.master_port = offers.front().master_port;
  }
  return assignment;
}

}  // namespace mtrun::rendezvous

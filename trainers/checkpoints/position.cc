#include "trainers/checkpoints/position.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtrun::checkpoints {
namespace {

bool SameState(const Claim& a, const Claim& b) {
  return a.run == b.run && a.position == b.position && a.digest == b.digest;
}

/// Returns the lowest rank that holds the furthest state of any run, or -1 if no rank holds one.
int FindSource(absl::Span<const Claim> claims) {
  int source = -1;
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    if (claims[rank].run == 0) continue;
    if (source < 0 || claims[rank].position > claims[static_cast<size_t>(source)].position)
      source = static_cast<int>(rank);
  }
  return source;
}

/// Returns the number of the next generation. `source` as in StatePlan.
uint64_t GenerationAfter(absl::Span<const Claim> claims, int source, uint64_t service_generation) {
  uint64_t highest = 0;
  for (const Claim& claim : claims) {
    if (claim.run != 0) highest = std::max(highest, claim.position.generation);
    if (source >= 0) highest = std::max(highest, claim.known);
  }
  const uint64_t counted = std::max<uint64_t>(1, service_generation);
  return std::max(counted, highest + 1) + (source < 0 ? 0 : claims[static_cast<size_t>(source)].gap);
}

}  // namespace

std::string ToText(const Position& position) {
  return absl::StrCat("step ", position.steps, " (generation ", position.generation, ")");
}

StatePlan DecideSource(absl::Span<const Claim> claims, uint64_t service_generation) {
  StatePlan plan;
  plan.source = FindSource(claims);
  plan.generation = GenerationAfter(claims, plan.source, service_generation);
  if (plan.source < 0) return plan;
  const Claim& truth = claims[static_cast<size_t>(plan.source)];
  plan.truth = truth.position;
  plan.writer = plan.source;
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    const SavedPosition& saved = claims[rank].saved;
    if (saved.run == truth.run && saved.position > truth.position)
      plan.readers.push_back(static_cast<int>(rank));
    if (SameState(claims[rank], truth)) {
      plan.writer = std::min(plan.writer, static_cast<int>(rank));
      continue;
    }
    plan.receive.push_back(static_cast<int>(rank));
    if (claims[rank].run == 0) continue;
    if (plan.rival < 0 && claims[rank].position == truth.position) plan.rival = static_cast<int>(rank);
    if (claims[rank].run != truth.run) plan.diverged.push_back(static_cast<int>(rank));
  }
  return plan;
}

std::string DescribeRivals(absl::Span<const Claim> claims, const StatePlan& plan) {
  const Claim& truth = claims[static_cast<size_t>(plan.source)];
  const Claim& other = claims[static_cast<size_t>(plan.rival)];
  return absl::StrFormat(
      "rank %d and rank %d are both at %s with different %s", plan.source, plan.rival, ToText(truth.position),
      truth.run == other.run ? absl::StrFormat("states (digests %016x and %016x)", truth.digest, other.digest)
                             : absl::StrFormat("runs (%016x and %016x)", truth.run, other.run));
}

}  // namespace mtrun::checkpoints

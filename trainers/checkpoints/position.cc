#include "trainers/checkpoints/position.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtrun::checkpoints {
namespace {

bool SameState(const Claim& a, const Claim& b) {
  return a.run == b.run && a.position == b.position && a.digest == b.digest;
}

/// Across runs generations say nothing: who begins one afresh while all members of the other are cut off has
/// a higher one, and next to no work.
bool OutlastsOtherRun(const Position& a, const Position& b) {
  return std::pair(a.steps, a.generation) > std::pair(b.steps, b.generation);
}

/// The rank whose state counts, -1 if nobody has one: the furthest of the run that has most steps.
int FindSource(absl::Span<const Claim> claims) {
  std::map<uint64_t, int> furthest;  // run -> the first rank that stands there
  for (size_t rank = 0; rank < claims.size(); ++rank) {
    if (claims[rank].run == 0) continue;
    const auto [of_run, first] = furthest.try_emplace(claims[rank].run, static_cast<int>(rank));
    if (claims[rank].position > claims[static_cast<size_t>(of_run->second)].position) {
      of_run->second = static_cast<int>(rank);
    }
  }
  int source = -1;
  const auto at = [&](int rank) { return claims[static_cast<size_t>(rank)].position; };
  for (const auto& [run, rank] : furthest) {
    const bool better = source < 0 || OutlastsOtherRun(at(rank), at(source));
    if (better || (rank < source && !OutlastsOtherRun(at(source), at(rank)))) source = rank;
  }
  return source;
}

}  // namespace

std::string ToText(const Position& position) {
  return absl::StrCat("step ", position.steps, " (generation ", position.generation, ")");
}

StatePlan DecideSource(absl::Span<const Claim> claims, uint64_t service_generation) {
  StatePlan plan;
  plan.generation = std::max<uint64_t>(1, service_generation);
  uint64_t known = 0;
  for (const Claim& claim : claims) {
    known = std::max(known, claim.known);
    if (claim.run == 0) continue;
    plan.generation = std::max(plan.generation, claim.position.generation + 1);
  }
  plan.source = FindSource(claims);
  if (plan.source < 0) return plan;
  plan.generation = std::max(plan.generation, known + 1);
  const Claim& truth = claims[static_cast<size_t>(plan.source)];
  plan.writer = plan.source;
  for (size_t rank = 0; rank < claims.size(); ++rank) {
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
  return absl::StrFormat("rank %d and rank %d both stand at %s with different %s", plan.source, plan.rival,
                         ToText(truth.position),
                         truth.run == other.run
                             ? absl::StrFormat("states (digests %016x and %016x)", truth.digest, other.digest)
                             : absl::StrFormat("runs (%016x and %016x)", truth.run, other.run));
}

}  // namespace mtrun::checkpoints

// A trainer's input from disk when it continues: the manifest, the state, the ledger, the metrics; and the
// other ranks' claims about their run and state.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/invariant.h"
#include "trainers/checkpoints/json_lines_end.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/lineage.h"
#include "trainers/checkpoints/manifest.h"
#include "trainers/checkpoints/position.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/run/records/metrics_log.h"
#include "trainers/run/records/run_progress.h"
#include "trainers/run/rules/identity.h"

namespace mtrun::fuzz {
namespace {

using namespace checkpoints;  // NOLINT: the code under test

void ReadManifest(std::string_view bytes) {
  const auto manifest = DecodeManifest(bytes);
  if (!manifest.ok()) return;
  for (const auto& [name, record] : *manifest) MT_HOLDS(record.bytes >= 0) << name;
  const auto again = DecodeManifest(EncodeManifest(*manifest));
  MT_HOLDS(again.ok() && *again == *manifest) << again.status();
}

void ReadState(std::string_view bytes) {
  const auto state = DecodeRunState(bytes);
  if (!state.ok()) return;
  MT_HOLDS(state->position.steps >= 0) << state->position.steps;
  const auto again = DecodeRunState(EncodeRunState(*state));
  MT_HOLDS(again.ok() && again->position == state->position && again->identity == state->identity)
      << again.status();
  const auto progress = trainers::RunProgressFromJson(state->progress);
  if (!progress.ok()) return;
  MT_HOLDS(trainers::RunProgressFromJson(trainers::ToJson(*progress)).ok());
  for (const int64_t count : progress->confusion) MT_HOLDS(count >= 0) << count;
  for (const trainers::EvalRecord& record : progress->history)
    MT_HOLDS(ParseJsonObject(trainers::ToLine(record), kMaxLineBytes).ok()) << trainers::ToLine(record);
}

void ReadLedger(std::string_view bytes) {
  const InputFile file(bytes);
  const auto run = RunOfLedger(file.path());
  MT_HOLDS(EndOfLedger(file.path()).ok());
  LedgerHead head;
  head.run = run.ok() ? run->value_or(7) : 7;
  auto ledger = Ledger::Open(file.path(), head);
  if (!ledger.ok()) return;
  MT_HOLDS(ledger->AppendCheckpoint(1, "digest").ok());
  const auto again = RunOfLedger(file.path());
  MT_HOLDS(again.ok() && again->has_value()) << again.status();
}

void ReadMetrics(std::string_view bytes) {
  const InputFile file(bytes);
  auto log = trainers::MetricsLog::Continue(file.path(), 5);
  MT_HOLDS(log.ok()) << log.status();
  MT_HOLDS(log->next_step() <= 5) << log->next_step();
}

/// Makes a claim from eight bytes: small numbers, so that members meet at the same positions.
Claim ClaimOf(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  Claim claim{.known = static_cast<uint64_t>(at(0) % 8)};
  if (at(1) % 3 != 0) {
    claim.run = at(1) % 3;
    claim.position = {static_cast<uint64_t>(at(2) % 8), at(3) % 16, at(4) % 2 == 1};
    claim.digest = at(4) % 4;
  }
  if (at(5) % 3 != 0)
    claim.saved = {static_cast<uint64_t>(at(5) % 3), {at(6) % 8u, at(7) % 16, at(4) % 8 > 3}};
  claim.gap = at(0) / 8;
  return claim;
}

/// For any claims, the selected one is the furthest. Once all readers have read theirs, no member has saved a
/// later state of its run.
void DecideOfClaims(std::string_view bytes) {
  std::vector<Claim> claims;
  for (; bytes.size() >= 8 && claims.size() < 6; bytes.remove_prefix(8)) claims.push_back(ClaimOf(bytes));
  const StatePlan plan = DecideSource(claims, bytes.size());
  if (plan.source < 0) return;
  const Claim& source = claims.at(static_cast<size_t>(plan.source));
  for (const Claim& claim : claims) MT_HOLDS(claim.run == 0 || claim.position <= source.position);
  for (const int rank : plan.readers)
    claims.at(static_cast<size_t>(rank)).position = claims[rank].saved.position;
  const uint64_t run = source.run;
  for (const int rank : plan.readers) {
    Claim& reader = claims.at(static_cast<size_t>(rank));
    MT_HOLDS(reader.saved.run == run && reader.saved.position > plan.truth);
    reader.run = run;
    reader.position = reader.saved.position;
  }
  const StatePlan again = DecideSource(claims, bytes.size());
  for (const Claim& claim : claims) {
    MT_HOLDS(claim.saved.run != run || claim.saved.position <= again.truth);
    MT_HOLDS(again.generation > claim.known);
  }
}

}  // namespace

void FuzzCheckpoint(std::string_view bytes) {
  if (bytes.empty()) return;
  constexpr unsigned char kClaims = 250;
  if (static_cast<unsigned char>(bytes[0]) >= kClaims) return DecideOfClaims(bytes.substr(1));
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0] % 5) {
    case 0:
      return ReadManifest(rest);
    case 1:
      return ReadState(rest);
    case 2:
      return ReadLedger(rest);
    case 3:
      return ReadMetrics(rest);
    default:
      trainers::DescribeDifferences({std::string(rest), R"({"seed": "0"})"});
  }
}

}  // namespace mtrun::fuzz

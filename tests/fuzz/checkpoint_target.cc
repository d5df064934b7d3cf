// What a trainer reads of the disk when it continues: the manifest, the state, the ledger, the metrics; and
// what the other ranks claim to run.
#include <string>

#include "base/json_text.h"
#include "base/status_macros.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/input.h"
#include "trainers/checkpoints/json_lines_end.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/manifest.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/run/identity.h"
#include "trainers/run/metrics_log.h"
#include "trainers/run/run_progress.h"

namespace mtrun::fuzz {
namespace {

using namespace checkpoints;  // NOLINT: the code under test

void ReadManifest(std::string_view bytes) {
  const auto manifest = DecodeManifest(bytes);
  if (!manifest.ok()) return;
  for (const auto& [name, record] : *manifest) MT_CHECK(record.bytes >= 0) << name;
  const auto again = DecodeManifest(EncodeManifest(*manifest));
  MT_CHECK(again.ok() && *again == *manifest) << again.status();
}

void ReadState(std::string_view bytes) {
  const auto state = DecodeRunState(bytes);
  if (!state.ok()) return;
  MT_CHECK(state->position.steps >= 0) << state->position.steps;
  const auto again = DecodeRunState(EncodeRunState(*state));
  MT_CHECK(again.ok() && again->position == state->position && again->identity == state->identity)
      << again.status();
  const auto progress = trainers::RunProgressFromJson(state->progress);
  if (!progress.ok()) return;
  MT_CHECK(trainers::RunProgressFromJson(trainers::ToJson(*progress)).ok());
  for (const int64_t count : progress->confusion) MT_CHECK(count >= 0) << count;
  for (const trainers::EvalRecord& record : progress->history)
    MT_CHECK(ParseJsonObject(trainers::ToLine(record), kMostLineBytes).ok()) << trainers::ToLine(record);
}

void ReadLedger(std::string_view bytes) {
  const InputFile file(bytes);
  const auto run = RunOfLedger(file.path());
  MT_CHECK(HighestGeneration(file.path()).ok());
  LedgerHead head;
  head.run = run.ok() ? run->value_or(7) : 7;
  auto ledger = Ledger::Open(file.path(), head);
  if (!ledger.ok()) return;
  MT_CHECK(ledger->AppendCheckpoint(1, "digest").ok());
  const auto again = RunOfLedger(file.path());
  MT_CHECK(again.ok() && again->has_value()) << again.status();
}

void ReadMetrics(std::string_view bytes) {
  const InputFile file(bytes);
  auto log = trainers::MetricsLog::Continue(file.path(), 5);
  MT_CHECK(log.ok()) << log.status();
  MT_CHECK(log->next_step() <= 5) << log->next_step();
}

}  // namespace

void FuzzCheckpoint(std::string_view bytes) {
  if (bytes.empty()) return;
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

#include "trainers/checkpoints/run_state.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/json_text.h"
#include "base/status_macros.h"

namespace mtrun::checkpoints {
namespace {

using nlohmann::json;

constexpr char kStateFormat[] = "mtrun-run-state";
constexpr int kStateVersion = 1;
constexpr size_t kMaxStateBytes = size_t{256} << 20;  // enough for the confusion matrix of 5000 classes

absl::Status Wrong(const char* field) {
  return absl::InvalidArgumentError(absl::StrCat("state.json: \"", field, "\" is missing or malformed"));
}

absl::StatusOr<Position> DecodePosition(const json& entry) {
  if (!entry.is_object()) return Wrong("position");
  const json generation = entry.value("generation", json());
  const std::optional<int64_t> steps = WholeNumber<int64_t>(entry.value("steps", json()));
  const json evaluated = entry.value("evaluated", json());
  if (!generation.is_number_unsigned()) return Wrong("position.generation");
  if (!steps || *steps < 0) return Wrong("position.steps");
  if (!evaluated.is_boolean()) return Wrong("position.evaluated");
  return Position{generation.get<uint64_t>(), *steps, evaluated.get<bool>()};
}

absl::StatusOr<Lineage> DecodeLineage(const json& entries, const Position& at) {
  if (entries.is_null()) return Lineage();
  if (!entries.is_array() || entries.size() > kMaxLineageEntries) return Wrong("lineage");
  Lineage lineage;
  for (const json& entry : entries) {
    if (!entry.is_object()) return Wrong("lineage");
    const json generation = entry.value("generation", json());
    const std::optional<int64_t> from = WholeNumber<int64_t>(entry.value("from", json()));
    if (!generation.is_number_unsigned() || !from || *from < 0 || *from >= at.steps) return Wrong("lineage");
    const LineageEntry next{generation.get<uint64_t>(), *from};
    const bool ascends =
        lineage.empty() || (lineage.back().generation < next.generation && lineage.back().from < next.from);
    if (!ascends) return Wrong("lineage");
    lineage.push_back(next);
  }
  return lineage;
}

absl::StatusOr<Identity> DecodeIdentity(const json& entry) {
  if (!entry.is_object()) return Wrong("identity");
  Identity identity;
  for (const auto& [name, value] : entry.items()) {
    if (!value.is_string()) return Wrong("identity");
    identity[name] = value.get<std::string>();
  }
  return identity;
}

}  // namespace

std::string EncodeRunState(const RunState& state) {
  nlohmann::ordered_json lineage = nlohmann::ordered_json::array();
  for (const LineageEntry& entry : state.lineage)
    lineage.push_back({{"generation", entry.generation}, {"from", entry.from}});
  const nlohmann::ordered_json text = {{"format", kStateFormat},
                                       {"version", kStateVersion},
                                       {"run", absl::StrFormat("%016x", state.run)},
                                       {"position",
                                        {{"generation", state.position.generation},
                                         {"steps", state.position.steps},
                                         {"evaluated", state.position.evaluated}}},
                                       {"lineage", lineage},
                                       {"identity", state.identity},
                                       {"progress", state.progress}};
  return text.dump(1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunState> DecodeRunState(std::string_view text) {
  MT_ASSIGN_OR_RETURN(const json state, Annotate(ParseJson(text, kMaxStateBytes), "state.json"));
  if (!state.is_object() || state.value("format", json()) != kStateFormat) return Wrong("format");
  if (const json version = state.value("version", json()); version != kStateVersion) {
    return absl::FailedPreconditionError(absl::StrCat("state.json has version ", version.dump(),
                                                      ", but this program reads version ", kStateVersion));
  }
  RunState result;
  const json run = state.value("run", json());
  if (!run.is_string() || !absl::SimpleHexAtoi(run.get<std::string>(), &result.run) || result.run == 0)
    return Wrong("run");
  MT_ASSIGN_OR_RETURN(result.position, DecodePosition(state.value("position", json())));
  MT_ASSIGN_OR_RETURN(result.lineage, DecodeLineage(state.value("lineage", json()), result.position));
  MT_ASSIGN_OR_RETURN(result.identity, DecodeIdentity(state.value("identity", json())));
  result.progress = state.value("progress", json());
  if (!result.progress.is_object()) return Wrong("progress");
  return result;
}

absl::Status CheckSameRun(const Identity& now, const Identity& checkpoint,
                          const std::set<std::string>& may_change) {
  std::vector<std::string> differences;
  for (const auto& [name, text] : now) {
    if (may_change.count(name) != 0) continue;
    const auto found = checkpoint.find(name);
    if (found == checkpoint.end()) {
      differences.push_back(absl::StrCat(name, " is ", text, ", but is missing in the checkpoint"));
    } else if (found->second != text) {
      differences.push_back(absl::StrCat(name, " is ", text, ", but the checkpoint has ", found->second));
    }
  }
  for (const auto& [name, text] : checkpoint) {
    if (may_change.count(name) != 0 || now.count(name) != 0) continue;
    differences.push_back(absl::StrCat(name, " is ", text, " in the checkpoint, but is not set now"));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(differences, "; "));
}

}  // namespace mtrun::checkpoints

#include "trainers/run/rules/identity.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_text.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "datasets/images/image_file.h"
#include "nlohmann/json.hpp"
#include "trainers/random/random_stream.h"
#include "trainers/run/rules/ranks_by_text.h"

namespace mtrun::trainers {
namespace {

using nlohmann::json;

constexpr char kVersionKey[] = "mtrun";
constexpr char kMachineKey[] = "machine";
constexpr size_t kMaxClaimBytes = 1 << 20;

/// Returns a setting's text within a generation; a choice's outcome is in the table of settings.
std::string GenerationText(const Option& option, const TrainOptions& options, const Settings& settings) {
  const bool choice = option.spec.kind == SettingSpec::Kind::kString || !option.text;
  return choice ? settings.Text(option.spec.name) : option.text(options);
}

void AddOption(const Option& option, const TrainOptions& options, const Settings& settings,
               RunIdentity& identity) {
  if (option.scope != Scope::kRun) identity.not_of_run.insert(option.identity_name());
  if (!option.through.empty()) return;
  if (option.scope == Scope::kRun) {
    const std::string text = option.text ? option.text(options) : settings.Text(option.spec.name);
    if (text == option.since) return;
    identity.run[option.identity_name()] = text;
    const bool derived = settings.IsDerived(option.spec.name);
    // A checkpoint without an option of Since had that value, which may be another one than the default.
    if (!derived && !option.since && settings.Text(option.spec.name) == option.spec.default_text)
      identity.at_default.insert(option.identity_name());
  } else if (option.scope == Scope::kGeneration) {
    identity.generation[option.spec.name] = GenerationText(option, options, settings);
  }
}

/// Returns {"seed": "0", ...} from a claim; empty if it is malformed.
std::map<std::string, std::string> ReadClaim(const std::string& claim) {
  std::map<std::string, std::string> items;
  const absl::StatusOr<json> object = ParseJsonObject(claim, kMaxClaimBytes);
  if (!object.ok()) return items;
  for (const auto& [name, text] : object->items()) {
    if (text.is_string()) items[name] = text.get<std::string>();
  }
  return items;
}

/// Returns the version of a definition that a checkpoint names; those before names were given are "1".
std::string VersionIn(const checkpoints::Identity& checkpoint, const char* name) {
  return ValueOr(checkpoint, name, "1");
}

/// Returns each claim's text of this name.
std::vector<std::string> TextsOf(std::vector<std::map<std::string, std::string>>& items,
                                 const std::string& name) {
  std::vector<std::string> texts;
  texts.reserve(items.size());
  for (auto& item : items) texts.push_back(item[name]);
  return texts;
}

}  // namespace

RunIdentity MakeIdentity(const std::string& program, const std::string& data, const TrainOptions& options,
                         const Settings& settings, const std::vector<Option>& own, const RunMeans& means) {
  RunIdentity identity;
  for (const Option& option : AllOptions(program, own)) AddOption(option, options, settings, identity);
  identity.run["program"] = program;
  identity.run["data"] = data;
  identity.not_of_run.erase("data");
  // Runs of earlier releases and runs without it have no such entry.
  if (options.validation_share > 0) identity.run["validation_share"] = absl::StrCat(options.validation_share);
  identity.not_of_run.erase("validation_share");
  if (means.draws) identity.run.insert_or_assign(kRandomStreams, std::string(kRandomStreamVersion));
  if (options.random_streams != "new") identity.not_of_run.erase(kRandomStreams);
  if (means.decodes && options.ReadingNow().decode == datasets::DecodeMode::kFast)
    identity.run.insert_or_assign(kFastPixels, std::string(datasets::kFastPixelsVersion));
  return identity;
}

absl::Status CheckContinues(const RunIdentity& identity, const checkpoints::Identity& checkpoint) {
  std::set<std::string> may_change = identity.not_of_run;
  for (const std::string& name : identity.at_default) {
    if (!checkpoint.contains(name)) may_change.insert(name);
  }
  may_change.insert(kFastPixels);
  const bool any_streams = !may_change.insert(kRandomStreams).second;
  MT_RETURN_IF_ERROR(checkpoints::CheckSameRun(identity.run, checkpoint, may_change));
  const auto own = identity.run.find(kRandomStreams);
  const std::string theirs = VersionIn(checkpoint, kRandomStreams);
  if (any_streams || own == identity.run.end() || own->second == theirs) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "its random numbers (augmentation, dropout, noise) are those of version ", theirs,
      ", but this mtrun's are of version ", own->second, ": --random_streams new continues with these"));
}

std::string DescribeOtherPixels(const RunIdentity& identity, const checkpoints::Identity& checkpoint) {
  const auto own = identity.run.find(kFastPixels);
  const std::string theirs = VersionIn(checkpoint, kFastPixels);
  if (own == identity.run.end() || own->second == theirs) return "";
  return absl::StrCat("the run began with version ", theirs, " of --decode fast, this mtrun has version ",
                      own->second,
                      ": the pixels of its images differ by less than 1 level in the mean from now on");
}

std::string EncodeClaim(const RunIdentity& identity, const std::string& version) {
  json claim = identity.run;
  for (const auto& [name, text] : identity.generation) claim[name] = text;
  claim[kVersionKey] = version;
  if (!identity.machine.empty()) claim[kMachineKey] = identity.machine;
  return claim.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

std::string DescribeDifferences(const std::vector<std::string>& claims) {
  std::vector<std::map<std::string, std::string>> items;
  std::set<std::string> names;
  for (const std::string& claim : claims) {
    items.push_back(ReadClaim(claim));
    for (const auto& item : items.back()) names.insert(item.first);
  }
  std::vector<std::string> differences;
  bool batch = false;
  names.erase(kMachineKey);
  for (const std::string& name : names) {
    const RanksByText ranks = GroupByText(TextsOf(items, name));
    if (ranks.size() == 1) continue;
    if (name == kVersionKey) return absl::StrCat("the version of mtrun: ", DescribeRanks(ranks));
    differences.push_back(absl::StrCat(name, ": ", DescribeRanks(ranks)));
    batch = batch || name == "global_batch" || name == "batch_size";
  }
  // A node with a checkpoint takes its batch, a node without one derives it.
  return absl::StrCat(absl::StrJoin(differences, "; "),
                      batch ? ": give the same --global_batch and --batch_size everywhere" : "");
}

Machines MachinesIn(const std::vector<std::string>& claims) {
  std::vector<std::string> kinds;
  kinds.reserve(claims.size());
  for (const std::string& claim : claims) kinds.push_back(ReadClaim(claim)[kMachineKey]);
  return MachinesOf(kinds);
}

}  // namespace mtrun::trainers

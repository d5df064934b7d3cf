#include "trainers/checkpoints/manifest.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/string_view.h"
#include "nlohmann/json.hpp"

namespace mtrun::checkpoints {
namespace {

constexpr char kManifestFormat[] = "mtrun-checkpoint";
constexpr int kManifestVersion = 1;
constexpr size_t kMaxManifestBytes = 1 << 20;
constexpr char kStepPrefix[] = "step_";
constexpr char kBranchPrefix[] = "branch_";

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("DONE is not a checkpoint's manifest: ", what));
}

}  // namespace

std::string StepFolder(int64_t step) { return absl::StrCat(kStepPrefix, step); }

std::optional<int64_t> ParseStepFolder(std::string_view name) {
  const absl::string_view text(name.data(), name.size());
  int64_t step = 0;
  if (!absl::StartsWith(text, kStepPrefix)) return std::nullopt;
  if (!absl::SimpleAtoi(text.substr(sizeof(kStepPrefix) - 1), &step) || step < 0) return std::nullopt;
  return StepFolder(step) == name ? std::optional(step) : std::nullopt;
}

std::string PartialFolder(int64_t step, std::string_view unique) {
  return absl::StrCat(".", StepFolder(step), ".partial-", View(unique));
}

bool IsPartialFolder(std::string_view name) {
  const absl::string_view text(name.data(), name.size());
  return absl::StartsWith(text, absl::StrCat(".", kStepPrefix)) && absl::StrContains(text, ".partial-");
}

std::string BranchFolder(const Position& position, int number) {
  return absl::StrCat(kBranchPrefix, position.generation, "_", StepFolder(position.steps),
                      number > 1 ? absl::StrCat(".", number) : "");
}

bool IsBranchFolder(std::string_view name) { return absl::StartsWith(View(name), kBranchPrefix); }

std::string EncodeManifest(const Manifest& manifest) {
  nlohmann::ordered_json files = nlohmann::ordered_json::object();
  for (const auto& [name, record] : manifest)
    files[name] = {{"bytes", record.bytes}, {"sha256", record.sha256}};
  const nlohmann::ordered_json json = {
      {"format", kManifestFormat}, {"version", kManifestVersion}, {"files", files}};
  return json.dump(1) + "\n";
}

absl::StatusOr<Manifest> DecodeManifest(std::string_view text) {
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(text, kMaxManifestBytes);
  if (!parsed.ok()) return Malformed(parsed.status().message());
  const nlohmann::json& json = *parsed;
  if (!json.is_object() || json.value("format", nlohmann::json()) != kManifestFormat)
    return Malformed("unknown format");
  const nlohmann::json version = json.value("version", nlohmann::json());
  if (version != kManifestVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the checkpoint has format version ", version.dump(),
                                                      ", but this program reads version ", kManifestVersion));
  }
  const nlohmann::json files = json.value("files", nlohmann::json());
  if (!files.is_object() || files.empty()) return Malformed("no files");
  Manifest manifest;
  for (const auto& [name, entry] : files.items()) {
    if (!entry.is_object()) return Malformed(name);
    const int64_t bytes = WholeNumber<int64_t>(entry.value("bytes", nlohmann::json())).value_or(-1);
    const nlohmann::json digest = entry.value("sha256", nlohmann::json());
    const bool whole = bytes >= 0 && digest.is_string();
    if (!whole || !IsSha256(digest.get<std::string>())) return Malformed(name);
    manifest[name] = {bytes, digest.get<std::string>()};
  }
  return manifest;
}

std::vector<int64_t> StepsToRemove(std::vector<int64_t> complete, int64_t saved, int keep_last,
                                   std::optional<int64_t> best) {
  std::erase_if(complete, [&](int64_t step) { return step > saved; });
  std::sort(complete.begin(), complete.end());
  const size_t keep = static_cast<size_t>(std::max(1, keep_last));
  complete.resize(complete.size() - std::min(complete.size(), keep));
  std::erase_if(complete, [&](int64_t step) { return best == step; });
  return complete;
}

}  // namespace mtrun::checkpoints

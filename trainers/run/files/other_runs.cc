#include "trainers/run/files/other_runs.h"

#include <filesystem>
#include <functional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/folder_names.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/ledger.h"
#include "trainers/checkpoints/manifest.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;

constexpr char kAside[] = "previous_";

bool IsOfARun(const std::string& name) {
  static constexpr const char* kNames[] = {
      checkpoints::kLedgerFile, "metrics.jsonl", "config.yaml", "report.txt", "report.json", kBegunFolder};
  return absl::c_linear_search(kNames, name) || checkpoints::ParseStepFolder(name) ||
         checkpoints::IsPartialFolder(name) || checkpoints::IsBranchFolder(name) ||
         (absl::StartsWith(name, "model") && absl::EndsWith(name, ".safetensors"));
}

std::vector<std::string> NamesOfARun(const std::string& path) {
  std::vector<std::string> names = NamesIn(path);
  std::erase_if(names, std::not_fn(IsOfARun));
  return names;
}

std::string FreeName(const std::string& path) {
  std::error_code error;
  for (int n = 1;; ++n) {
    const std::string name = absl::StrCat(path, "/", kAside, n);
    if (!fs::exists(name, error)) return name;
  }
}

absl::Status Move(const std::vector<std::string>& names, const std::string& from, const std::string& to) {
  for (const std::string& name : names) {
    std::error_code error;
    fs::rename(fs::path(from) / name, fs::path(to) / name, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("move ", from, "/", name, " to ", to));
  }
  // In this order: a power cut in between leaves no file at neither place.
  MT_RETURN_IF_ERROR(SyncFolder(to));
  return SyncFolder(from);
}

/// Returns nothing if no checkpoint exists.
std::optional<uint64_t> RunOfNewestCheckpoint(const std::string& path) {
  const auto state = checkpoints::StateOfNewest(checkpoints::RealFiles(), path);
  return state ? std::optional(state->run) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> RunIn(const std::string& path) {
  MT_ASSIGN_OR_RETURN(const std::optional<uint64_t> run,
                      checkpoints::RunOfLedger(absl::StrCat(path, "/", checkpoints::kLedgerFile)));
  return run ? run : RunOfNewestCheckpoint(path);
}

absl::Status MoveAside(const std::string& path) {
  const std::vector<std::string> names = NamesOfARun(path);
  if (names.empty()) return absl::OkStatus();
  const std::string aside = FreeName(path);
  MT_RETURN_IF_ERROR(MakeFolders(aside));
  MT_RETURN_IF_ERROR(Move(names, path, aside));
  log::Info("moved the files of an earlier run in ", path, " to ", aside);
  return absl::OkStatus();
}

absl::Status GiveFolderTo(const std::string& path, uint64_t run) {
  MT_ASSIGN_OR_RETURN(const std::optional<uint64_t> here, RunIn(path));
  // A ledger that does not belong to this run's checkpoint was put there by hand; opening it reports that.
  if (here == run || RunOfNewestCheckpoint(path) == run) return absl::OkStatus();
  std::string back;
  for (const std::string& name : NamesIn(path)) {
    if (!absl::StartsWith(name, kAside)) continue;
    MT_ASSIGN_OR_RETURN(const std::optional<uint64_t> there, RunIn(absl::StrCat(path, "/", name)));
    if (there == run) back = absl::StrCat(path, "/", name);
  }
  if (here || !back.empty()) MT_RETURN_IF_ERROR(MoveAside(path));
  if (back.empty()) return absl::OkStatus();
  MT_RETURN_IF_ERROR(Move(NamesOfARun(back), back, path));
  log::Info("moved this run's files in ", back, " back to ", path);
  std::error_code ignored;  // if anything else is in the folder, both stay
  fs::remove(back, ignored);
  return absl::OkStatus();
}

}  // namespace mtrun::trainers

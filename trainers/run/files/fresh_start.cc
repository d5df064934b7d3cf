#include "trainers/run/files/fresh_start.h"

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/posix.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "trainers/run/files/other_runs.h"

namespace mtrun::trainers {
namespace {

constexpr size_t kNameDigits = 16;

/// Returns the agent's own file, because nodes that share the folder write at the same time.
std::string MarkOf(const std::string& folder, const std::string& agent) {
  return absl::StrCat(folder, "/", kBegunFolder, "/", Sha256Hex(agent).substr(0, kNameDigits));
}

std::string BegunText(uint64_t run) { return absl::StrFormat("run %016x\n", run); }

}  // namespace

std::string AgentOf(const EnvironmentMap& environment) { return ValueOr(environment, "MTRUN_SOCKET"); }

absl::Status MarkBegun(const std::string& folder, const std::string& agent, uint64_t run) {
  if (agent.empty()) return absl::OkStatus();
  const std::string mark = MarkOf(folder, agent);
  if (ReadFile(mark).value_or("") == BegunText(run)) return absl::OkStatus();
  MT_RETURN_IF_ERROR(MakeFolders(absl::StrCat(folder, "/", kBegunFolder)));
  return WriteFileAtomically(mark, BegunText(run));
}

/// The mark alone proves nothing: its writer may have died before the earlier run was moved aside.
bool IsBegunBy(const std::string& folder, const std::string& agent) {
  if (agent.empty()) return false;
  const absl::StatusOr<std::string> mark = ReadFile(MarkOf(folder, agent));
  if (!mark.ok()) return false;
  const absl::StatusOr<std::optional<uint64_t>> run = RunIn(folder);
  return run.ok() && run->has_value() && *mark == BegunText(**run);
}

}  // namespace mtrun::trainers

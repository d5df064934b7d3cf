#include "base/worker_env.h"

#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

extern char** environ;

namespace mtrun {
namespace {

/// Reads variables into fields and keeps the first error.
class EnvironmentReader {
 public:
  explicit EnvironmentReader(const EnvironmentMap& environment) : environment_(environment) {}

  void Number(const char* name, int low, int high, bool required, int* field) {
    const auto found = environment_.find(name);
    if (found == environment_.end() || found->second.empty()) {
      if (required) Complain(absl::StrCat(name, " is not set; a launcher sets it to a number from ", low));
      return;
    }
    int value = 0;
    if (!absl::SimpleAtoi(found->second, &value) || value < low || value > high) {
      return Complain(
          absl::StrCat(name, "=\"", found->second, "\" is not a number from ", low, " to ", high));
    }
    *field = value;
  }

  void Text(const char* name, std::string* field) {
    if (const auto found = environment_.find(name); found != environment_.end()) *field = found->second;
  }

  void Complain(std::string text) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(text);
  }

  const absl::Status& status() const { return status_; }

 private:
  const EnvironmentMap& environment_;
  absl::Status status_;
};

constexpr int kMany = 1 << 24;  // more workers than any cluster has, more descriptors than a process can open
constexpr int kManyRestarts = 1'000'000'000;  // upper bound on a job's restarts

}  // namespace

EnvironmentMap ToEnvironment(const WorkerEnv& w) {
  EnvironmentMap map = {
      {"RANK", absl::StrCat(w.rank)},
      {"LOCAL_RANK", absl::StrCat(w.local_rank)},
      {"WORLD_SIZE", absl::StrCat(w.world_size)},
      {"LOCAL_WORLD_SIZE", absl::StrCat(w.local_world_size)},
      {"GROUP_RANK", absl::StrCat(w.group_rank)},
      {"GROUP_WORLD_SIZE", absl::StrCat(w.group_world_size)},
      {"ROLE_RANK", absl::StrCat(w.role_rank)},
      {"ROLE_WORLD_SIZE", absl::StrCat(w.role_world_size)},
      {"ROLE_NAME", w.role_name},
      {"MASTER_ADDR", w.master_addr},
      {"MASTER_PORT", absl::StrCat(w.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", absl::StrCat(w.restart_count)},
      {"TORCHELASTIC_MAX_RESTARTS", absl::StrCat(w.max_restarts)},
      {"TORCHELASTIC_RUN_ID", w.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", w.error_file},
  };
  if (!w.socket.empty()) map["MTRUN_SOCKET"] = w.socket;
  if (!w.generation.empty()) map["MTRUN_GENERATION"] = w.generation;
  if (w.lease >= 0) map["MTRUN_LEASE"] = absl::StrCat(w.lease);
  return map;
}

bool IsLaunched(const EnvironmentMap& environment) {
  return environment.contains("RANK") && environment.contains("WORLD_SIZE");
}

absl::StatusOr<WorkerEnv> ParseWorkerEnv(const EnvironmentMap& environment) {
  WorkerEnv w;
  EnvironmentReader reader(environment);
  reader.Number("WORLD_SIZE", 1, kMany, true, &w.world_size);
  reader.Number("RANK", 0, w.world_size - 1, true, &w.rank);
  reader.Number("LOCAL_WORLD_SIZE", 1, w.world_size, false, &w.local_world_size);
  reader.Number("LOCAL_RANK", 0, kMany, false, &w.local_rank);
  reader.Number("GROUP_WORLD_SIZE", 1, kMany, false, &w.group_world_size);
  reader.Number("GROUP_RANK", 0, w.group_world_size - 1, false, &w.group_rank);
  w.role_world_size = w.world_size;
  w.role_rank = w.rank;
  reader.Number("ROLE_WORLD_SIZE", 1, kMany, false, &w.role_world_size);
  reader.Number("ROLE_RANK", 0, kMany, false, &w.role_rank);
  reader.Number("MASTER_PORT", 0, 65535, w.world_size > 1, &w.master_port);
  reader.Number("TORCHELASTIC_RESTART_COUNT", 0, kManyRestarts, false, &w.restart_count);
  reader.Number("TORCHELASTIC_MAX_RESTARTS", 0, kManyRestarts, false, &w.max_restarts);
  reader.Text("ROLE_NAME", &w.role_name);
  reader.Text("MASTER_ADDR", &w.master_addr);
  reader.Text("TORCHELASTIC_RUN_ID", &w.run_id);
  reader.Text("TORCHELASTIC_ERROR_FILE", &w.error_file);
  reader.Text("MTRUN_SOCKET", &w.socket);
  reader.Text("MTRUN_GENERATION", &w.generation);
  reader.Number("MTRUN_LEASE", 0, kMany, false, &w.lease);
  if (w.world_size > 1 && w.master_addr.empty())
    reader.Complain("MASTER_ADDR is empty; it must name the host of rank 0");
  MT_RETURN_IF_ERROR(reader.status());
  return w;
}

EnvironmentMap CurrentEnvironment() {
  EnvironmentMap map;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) map[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return map;
}

}  // namespace mtrun

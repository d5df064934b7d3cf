#include "trainers/collectives/agent_store.h"

namespace mtrun::collectives {

absl::Status AgentStore::Set(std::string_view key, std::string_view value) {
  return client_->Set(key, value);
}

absl::StatusOr<std::map<std::string, std::string>> AgentStore::Wait(const std::vector<std::string>& keys) {
  return client_->Wait(keys);
}

void AgentStore::Abort(std::string_view why) { client_->Abort(why); }

}  // namespace mtrun::collectives

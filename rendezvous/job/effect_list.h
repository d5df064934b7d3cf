// The effects of one step of a job's state machine, collected in order.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/job/key_value_store.h"
#include "rendezvous/wire/events.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

class EffectList {
 public:
  void Send(const std::string& node_id, ServiceEvent event);
  void Close(const std::string& node_id);
  /// Refuses the node permanently and closes its stream.
  void Refuse(const std::string& node_id, Cause::Kind why) {
    Refuse(Cause{node_id, node_id, std::move(why)});
  }
  void Refuse(const Cause& cause);
  void Log(std::string text, std::optional<Cause> gone = std::nullopt);
  /// Logs why a node is not in the job any more. `ends`: its generation ends with it, which each agent logs.
  void LogGone(const Cause& cause, bool ends);
  /// Logs a line that the user of an mtrun that hosts the service does not need: each agent logs it itself,
  /// or it explains a decision to a developer.
  void LogDetail(std::string text, std::optional<Cause> gone = std::nullopt);
  void Reply(const Generation& generation, const std::vector<KeyValueStore::Answer>& answers);
  /// Answers a read from the key-value space of a generation that is over. Other reports need no answer.
  void ReplyOver(const std::string& node_id, const AgentEvent& event);
  /// Returns the collected effects and clears the list.
  std::vector<Effect> Take();

  bool operator==(const EffectList&) const = default;

 private:
  std::vector<Effect> effects_;
};

}  // namespace mtrun::rendezvous

// The effects of one step of a job's state machine, collected in order.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/events.h"
#include "rendezvous/key_value_store.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

class EffectList {
 public:
  void Send(const std::string& node_id, ServiceEvent event);
  void Close(const std::string& node_id);
  /// Refuses the node for good and closes its stream.
  void Refuse(const std::string& node_id, const std::string& why);
  void Log(std::string text);
  /// For what every agent hears as well and says itself.
  void LogTold(std::string text);
  void Reply(const Generation& generation, const std::vector<KeyValueStore::Answer>& answers);
  /// Answers a read of the key-value space of a generation that is over; other reports need no answer.
  void ReplyOver(const std::string& node_id, const AgentEvent& event);
  /// What was collected; empty afterwards.
  std::vector<Effect> Take();

  bool operator==(const EffectList&) const = default;

 private:
  std::vector<Effect> effects_;
};

}  // namespace mtrun::rendezvous

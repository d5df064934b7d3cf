// The effects of one step, in the order to perform them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/core/agent_events.h"

namespace mtrun::launcher {

class EffectList {
 public:
  void Add(Effect effect) { effects_.push_back(std::move(effect)); }
  void Log(log::Level level, std::string text) { Add(WriteLog{level, std::move(text)}); }
  void Send(rendezvous::AgentEvent event) { Add(SendToService{std::move(event)}); }
  void Tell(const std::vector<int>& local_ranks, const channel::AgentMessage& message) {
    for (const int local_rank : local_ranks) Add(SendToWorker{local_rank, message});
  }
  Effects Take() { return std::exchange(effects_, {}); }
  bool operator==(const EffectList&) const = default;

 private:
  Effects effects_;
};

}  // namespace mtrun::launcher

// Tracks whether the job continues without this node: a later generation has formed elsewhere. A value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

class Others {
 public:
  /// Records a generation of the job. `node_id`: this node's.
  void OnMembership(const rendezvous::Assignment& generation, const std::string& node_id) {
    const bool member = std::any_of(generation.members.begin(), generation.members.end(),
                                    [&](const auto& each) { return each.node_id == node_id; });
    if (!member) number_ = std::max(number_, generation.generation.number);
  }
  /// `entered`: the last generation that this node was in.
  bool Continue(const rendezvous::Generation& entered) const { return number_ > entered.number; }
  /// Returns, once, the message for the workers of a leaving node; nullopt unless the others continue.
  std::optional<std::string> TakeNews(const rendezvous::Generation& entered, const std::string& why) {
    if (!Continue(entered) || told_) return std::nullopt;
    told_ = true;
    return absl::StrCat(why, "; the job continues on other nodes as generation ", number_);
  }
  /// Returns whether a generation without this node is known.
  bool known() const { return number_ > 0; }
  bool operator==(const Others&) const = default;

 private:
  uint64_t number_ = 0;  // number of the newest generation without this node
  bool told_ = false;
};

}  // namespace mtrun::launcher

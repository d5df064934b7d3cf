// What somebody asks of a job from outside (mtrun --drain, --evict, --stop), and who that is. Values; pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "rendezvous/fields.h"

namespace mtrun::rendezvous {

/// Who asks: what the asking program says of itself, and where its call came from.
struct Requester {
  std::string user, host;  // "" where it says nothing
  int64_t pid = 0;
  std::string address = {};  // as the service sees it: "10.0.0.7:4242"
  bool operator==(const Requester&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("user", self.user, Size{0, kMaxName});
    field("host", self.host, Size{0, kMaxName});
    field("pid", self.pid);
    field("address", self.address, Size{0, kMaxName});
  }
};

/// Every node of the job hears of it.
struct ControlCall {
  static constexpr char kDrain[] = "drain";    // a node leaves after its step
  static constexpr char kEvict[] = "evict";    // a node that is not connected never comes back
  static constexpr char kStop[] = "stop";      // the job ends
  static constexpr char kStacks[] = "stacks";  // nodes write down their workers' stacks
  std::string call;
  std::string node = {};    // drain, evict: its host where that names one node only, else its id
  bool checkpoint = false;  // stop: all nodes leave together, so that trainers save
  bool leave = false;       // the node that reads this leaves
  Requester by = {};
  Duration age = Duration::zero();  // since it was asked, where the node was not there then
  bool operator==(const ControlCall&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("call", self.call, Size{1, kMaxName});
    field("node", self.node, Size{0, kMaxName});
    field("checkpoint", self.checkpoint);
    field("leave", self.leave);
    field("by", self.by);
    field("age", self.age, Range{0, kMaxNanoseconds});
  }
};

/// Cut to its bounds; what a terminal or a log would take for more than text becomes '?'.
Requester Cleaned(const Requester& told, const std::string& address);

/// "anna@login1 (pid 4711, from 10.0.0.7:4242)"; of who says nothing "an operator (from 10.0.0.7:4242)".
std::string Describe(const Requester& by);
/// "node3 is asked to leave by anna@login1 (pid 4711, from 10.0.0.7:4242)"; with an age "node3 was evicted
/// 12 s ago by ...".
std::string Describe(const ControlCall& call);

}  // namespace mtrun::rendezvous

// A request to a job from outside (mtrun --drain, --evict, --stop) and its sender. Values; pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/clock.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous {

/// The sender of a request: its own description of itself, and the address of its call.
struct Requester {
  std::string user, host;  // "" if unknown
  int64_t pid = 0;
  std::string address = {};  // as seen by the service: "10.0.0.7:4242"
  bool operator==(const Requester&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("user", self.user, Size{0, kMaxName});
    field("host", self.host, Size{0, kMaxName});
    field("pid", self.pid);
    field("address", self.address, Size{0, kMaxName});
  }
};

/// Makes a node leave after its step.
struct DrainCall {
  std::string node = {};  // its host if that names one node only, else its id
  bool leave = false;     // the receiving node leaves
  bool operator==(const DrainCall&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("node", self.node, Size{0, kMaxName});
    field("leave", self.leave);
  }
};
/// States that a node that is not connected never comes back.
struct EvictCall {
  std::string node = {};
  Duration age = Duration::zero();  // since the request, if the node was absent then
  bool operator==(const EvictCall&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("node", self.node, Size{0, kMaxName});
    field("age", self.age, Range{0, kMaxNanoseconds});
  }
};
/// Ends the job.
struct StopCall {
  bool checkpoint = false;  // all nodes leave together, so that trainers save
  bool operator==(const StopCall&) const = default;
  static void Fields(auto& self, auto&& field) { field("checkpoint", self.checkpoint); }
};
/// Makes all nodes write their workers' stacks.
struct StacksCall {
  bool operator==(const StacksCall&) const = default;
  static void Fields(auto&, auto&&) {}
};
/// In the order of the wire's oneof. monostate: a kind that this version does not know.
using ControlKind = std::variant<std::monostate, DrainCall, EvictCall, StopCall, StacksCall>;

/// A request to the job. Every node of the job is notified of it.
struct ControlCall {
  ControlKind what = {};
  Requester by = {};
  bool operator==(const ControlCall&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("what", self.what);
    field("by", self.by);
  }
  /// True if all nodes leave together, so that trainers save.
  bool saves() const {
    const auto* stop = std::get_if<StopCall>(&what);
    return stop != nullptr && stop->checkpoint;
  }
  /// True if the receiving node leaves.
  bool leaves() const {
    const auto* drain = std::get_if<DrainCall>(&what);
    return saves() || (drain != nullptr && drain->leave);
  }
};

/// Returns "drain", "evict", "stop" or "stacks".
const char* NameOf(const ControlKind& what);
/// Returns `what` with that node and that checkpoint, if it has such members.
ControlKind Filled(ControlKind what, const std::string& node, bool checkpoint);

/// Returns `told` cut to its bounds; characters with a meaning for terminals or logs become '?'.
Requester Cleaned(const Requester& told, const std::string& address);

/// Returns "anna@login1", or "an operator" if the sender gives neither user nor host.
std::string Brief(const Requester& by);
/// Returns "anna@login1 (pid 4711, from 10.0.0.7:4242)", or "an operator (from 10.0.0.7:4242)" for a sender
/// that gives no name.
std::string Describe(const Requester& by);
/// "node3 is asked to leave by anna@login1 (pid 4711, from 10.0.0.7:4242)"; with an age "node3 was evicted
/// 12 s ago by ...".
std::string Describe(const ControlCall& call);

/// A request and the job that it names.
struct ControlQuestion {
  ControlKind what;         // its node is a host name or a node id
  std::string job_id = {};  // "": the only job of the service
  Requester by = {};
};

}  // namespace mtrun::rendezvous

// The reason why a generation ended, or why a node is gone from its job or is refused. It is decided once and
// carried as data; Describe() turns it into text for people. Values.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/worker_channel.h"
#include "rendezvous/wire/control_call.h"
#include "rendezvous/wire/fields.h"
#include "rendezvous/wire/worker_failure.h"

namespace mtrun::rendezvous {

/// A worker failed, and the job restarts.
struct WorkerDied {
  WorkerFailure failure;  // without its message
  int restart_count = 0, refunded = 0, max_restarts = 0;
  bool counted_before = false;  // by an earlier service
  int equal_failures = 0;       // this many in a row are the same; 0: nothing to say about it
  std::string error = {};       // the line of their error, "" if there is none
  bool operator==(const WorkerDied&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("failure", self.failure);
    field("restart_count", self.restart_count, Range{0, kMaxRestarts});
    field("refunded", self.refunded, Range{0, kMaxRestarts});
    field("max_restarts", self.max_restarts, Range{0, kMaxRestarts});
    field("counted_before", self.counted_before);
    field("equal_failures", self.equal_failures, Range{0, kMaxRestarts});
    field("error", self.error, Size{0, kMaxText});
  }
};

/// A worker of the node cannot continue with the others, although no process has failed.
struct WorkerStuck {
  int rank = 0;
  std::string why;  // as reported by the worker
  bool operator==(const WorkerStuck&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("rank", self.rank);
    field("why", self.why, Size{0, kMaxText});
  }
};

/// A worker of the node failed, and no restart on that node can help; the others continue.
struct NodeUnfit {
  WorkerFailure failure;  // with the last line of its message
  bool operator==(const NodeUnfit&) const = default;
  static void Fields(auto& self, auto&& field) { field("failure", self.failure); }
};

/// The service gave the node up, although the node did not report that it leaves.
struct NodeLost {
  enum class How {
    kDropped,  // for the reason in `detail`
    kStreamEnded,
    kConnectionBroke,
    kAgentGone,  // its host answers that none of its processes is left
    kNotBack,    // it did not come back to the new service
    kSilent,     // for `time`
    kEvicted,    // by `by`
  };
  std::string detail = {};  // the node's error, for kDropped
  How how = How::kDropped;
  Duration time = Duration::zero();
  Requester by = {};
  bool operator==(const NodeLost&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("detail", self.detail, Size{0, kMaxText});
    field("how", self.how);
    field("time", self.time, Range{0, kMaxNanoseconds});
    field("by", self.by);
  }
};

/// The node leaves: its agent reported it, or the service sent it away.
struct NodeLeft {
  enum class Why {
    kSentAway,  // for the reason in `detail`
    kSignal,
    kOperator,  // the one in `by`
    kPreemptFile,
    kNothingToTrain,
    kFailedAtStart,  // with `failure`
    kJobEnded,
    kStartedAgain,  // another process came with the same id
  };
  std::string detail = {};  // the node's error, for kSentAway
  Why why = Why::kSentAway;
  std::string host = {};  // the agent's host; "" if the text does not name it
  int signal = 0;
  Requester by = {};
  std::optional<WorkerFailure> failure = {};  // without its message
  bool operator==(const NodeLeft&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("detail", self.detail, Size{0, kMaxText});
    field("why", self.why);
    field("host", self.host, Size{0, kMaxName});
    field("signal", self.signal, Range{0, 127});
    field("by", self.by);
    field("failure", self.failure);
  }
};

struct NodeJoined {
  bool operator==(const NodeJoined&) const = default;
  static void Fields(auto&, auto&&) {}
};

/// The node has more workers ready than it has ranks.
struct NodeGrown {
  int ready = 0, members = 0;
  bool operator==(const NodeGrown&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("ready", self.ready, Range{0, kMaxWorkersPerNode});
    field("members", self.members, Range{0, kMaxWorkersPerNode});
  }
};

/// The node's workers have stopped.
struct NodeStopped {
  bool operator==(const NodeStopped&) const = default;
  static void Fields(auto&, auto&&) {}
};

/// The job continues with a generation that this service, or this node, did not know.
struct NewerGeneration {
  enum class Source {
    kReported,  // by the node, which runs it
    kKnown,     // to the node
    kAssigned,  // the service has formed it
  };
  channel::Generation generation;
  Source source = Source::kReported;
  bool operator==(const NewerGeneration&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("source", self.source);
  }
};

/// A node runs a generation that its job has left.
struct GenerationOver {
  channel::Generation generation;
  bool operator==(const GenerationOver&) const = default;
  static void Fields(auto& self, auto&& field) { field("generation", self.generation); }
};

/// A node that was evicted has come back, and runs a generation that its job has left.
struct NodeEvicted {
  Requester by;
  Duration age = Duration::zero();  // since the request
  bool operator==(const NodeEvicted&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("by", self.by);
    field("age", self.age, Range{0, kMaxNanoseconds});
  }
};

struct NodePair {
  std::string one, other;  // their names in the job
  bool operator==(const NodePair&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("one", self.one, Size{0, kMaxName});
    field("other", self.other, Size{0, kMaxName});
  }
};

/// Workers of these nodes do not reach each other.
struct NodesSeparated {
  static constexpr size_t kMaxShown = 4;
  std::vector<NodePair> pairs;            // at most kMaxShown
  int more = 0;                           // number of further pairs
  std::vector<std::string> without = {};  // nodes without which the job continues
  bool operator==(const NodesSeparated&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("pairs", self.pairs, List{{0, kMaxNodes}, {}});
    field("more", self.more);
    field("without", self.without, List{{0, kMaxNodes}, {0, kMaxName}});
  }
};

/// The node was started with other settings than the job.
struct SettingsDiffer {
  std::string job_id;
  std::vector<std::string> keys;  // "max_nodes is 3 here, 2 in the job"
  bool operator==(const SettingsDiffer&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("job_id", self.job_id, Size{0, kMaxName});
    field("keys", self.keys, List{{0, kMaxNodes}, {0, kMaxText}});
  }
};

/// The node's run of the job is over, and another one has begun.
struct RunReplaced {
  std::string job_id;
  bool operator==(const RunReplaced&) const = default;
  static void Fields(auto& self, auto&& field) { field("job_id", self.job_id, Size{0, kMaxName}); }
};

/// The node broke the protocol, or requested more than the service has.
struct NotServed {
  std::string detail;
  bool operator==(const NotServed&) const = default;
  static void Fields(auto& self, auto&& field) { field("detail", self.detail, Size{0, kMaxText}); }
};

struct Cause {
  /// In the order of the wire's oneof. monostate: a kind that this version does not know.
  using Kind = std::variant<std::monostate, WorkerDied, WorkerStuck, NodeUnfit, NodeLost, NodeLeft,
                            NodeJoined, NodeGrown, NodeStopped, NewerGeneration, GenerationOver, NodeEvicted,
                            NodesSeparated, SettingsDiffer, RunReplaced, NotServed>;
  std::string node_id, name;  // the node's id, and its name in the job; "" if no node is concerned
  Kind kind = {};
  bool operator==(const Cause&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("node_id", self.node_id, Size{0, kMaxName});
    field("name", self.name, Size{0, kMaxName});
    field("kind", self.kind);
  }
};

/// Returns "restart 2 of 3", or "restart 5 (1 of 3 used)" if steps have given some back.
std::string RestartText(int count, int refunded, int max_restarts);
/// Returns "node1 received SIGTERM", "was asked to leave by anna@login1"; the host comes first if it is set.
std::string Describe(const NodeLeft& left);
std::string Describe(const NodesSeparated& apart);
/// Returns one line: "node2 is lost: its stream ended".
std::string Describe(const Cause& cause);

}  // namespace mtrun::rendezvous

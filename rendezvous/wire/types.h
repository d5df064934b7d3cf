// The data types of the rendezvous: offers of nodes, assignments of generations, outcomes of jobs. Values
// with == and Describe(). Each lists its fields once (fields.h): a new field is a member, its row and a line
// in rendezvous.proto.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/worker_channel.h"
#include "rendezvous/wire/cause.h"
#include "rendezvous/wire/control_call.h"
#include "rendezvous/wire/fields.h"
#include "rendezvous/wire/log_call.h"
#include "rendezvous/wire/node_use.h"
#include "rendezvous/wire/worker_failure.h"

namespace mtrun::rendezvous {

using Generation = channel::Generation;

/// One agent's offer for the next generation, sent when it joins and whenever it is ready for another one.
struct Offer {
  std::string node_id;  // unique for one agent process: "<host>-<pid>-<random>"
  std::string host;     // host name; the first formation orders nodes naturally by it
  std::string address;  // where peers reach this node
  // Address at which it reaches the machine of the job's only endpoint; "": that is its own, or it is
  // unknown.
  std::string endpoint_address = {};
  int workers = 1;               // number of workers that it starts
  std::optional<int> node_rank;  // --node_rank: decides the order if given
  int master_port = 0;           // a port held open on this node: MASTER_PORT if it becomes node 0
  int presence_port = 0;         // open while a process of this node lives; 0: none
  uint64_t presence_id = 0;      // what the guardian answers there; 0: nothing
  int service_port = 0;  // port of this agent's rendezvous service, which may take the job over; 0: none
  std::string role = "default";
  bool ends_step = false;  // its workers may still be in the step after which they leave the last generation
  bool leaves = false;     // the node was told to go: a candidate only as a survivor of the last generation
  std::optional<Generation> holds;  // the generation whose workers this agent still runs (after a reconnect)
  bool operator==(const Offer&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("node_id", self.node_id, Size{1, kMaxName});
    field("host", self.host, Size{0, kMaxName});
    field("address", self.address, Size{0, kMaxName});
    field("endpoint_address", self.endpoint_address, Size{0, kMaxName});
    field("workers", self.workers, Range{0, kMaxWorkersPerNode});
    field("node_rank", self.node_rank, Range{0, kMaxNodes - 1});
    field("master_port", self.master_port, Range{0, kMaxPort});
    field("presence_port", self.presence_port, Range{0, kMaxPort});
    field("presence_id", self.presence_id);
    field("service_port", self.service_port, Range{0, kMaxPort});
    field("role", self.role, Size{0, kMaxName});
    field("ends_step", self.ends_step);
    field("leaves", self.leaves);
    field("holds", self.holds);
  }
};

struct Member {
  std::string node_id, host, address, role;
  int node_rank = 0;
  int first_rank = 0;  // ranks first_rank .. first_rank+workers-1
  int workers = 0;
  int presence_port = 0;
  uint64_t presence_id = 0;
  int service_port = 0;
  bool operator==(const Member&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("node_id", self.node_id, Size{1, kMaxName});
    field("host", self.host, Size{0, kMaxName});
    field("address", self.address, Size{0, kMaxName});
    field("role", self.role, Size{0, kMaxName});
    field("node_rank", self.node_rank);
    field("first_rank", self.first_rank);
    field("workers", self.workers, Range{1, kMaxWorkersPerNode});
    field("presence_port", self.presence_port, Range{0, kMaxPort});
    field("presence_id", self.presence_id);
    field("service_port", self.service_port, Range{0, kMaxPort});
  }
};

/// A generation before an assignment's whose members may not all know that it was followed, so that another
/// one of several services could follow it too (Predecessors). Its members are those of the assignment
/// without `newcomers`, and `others`.
struct EarlierGeneration {
  Generation generation;
  std::vector<std::string> newcomers;  // node ids of the assignment's members that were not in it
  std::vector<Member> others;          // its members that are not in the assignment, except those that left
  std::vector<std::string> gone;       // node ids of the dead and evicted among `others`
  bool operator==(const EarlierGeneration&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("newcomers", self.newcomers, List{{0, kMaxNodes}, {1, kMaxName}});
    field("others", self.others, List{{0, kMaxNodes}, {}});
    field("gone", self.gone, List{{0, kMaxNodes}, {1, kMaxName}});
  }
};

/// The membership of one generation, the same for all its members.
struct Assignment {
  Generation generation;
  std::vector<Member> members;  // in order of node_rank
  int world_size = 0;
  std::string master_address;  // of node 0
  int master_port = 0;
  int restart_count = 0;     // failures used from the job-wide budget
  int refunded = 0;          // failures given back out of those
  uint64_t incarnation = 0;  // identifies the run among those under the same job id; random, not 0
  // Oldest first. Empty once its members know that no earlier generation can be followed any more (Lease).
  std::vector<EarlierGeneration> earlier;
  bool operator==(const Assignment&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("members", self.members, List{{1, kMaxNodes}, {}});
    field("world_size", self.world_size);
    field("master_address", self.master_address, Size{0, kMaxName});
    field("master_port", self.master_port, Range{0, kMaxPort});
    field("restart_count", self.restart_count, Range{0, kMaxRestarts});
    field("refunded", self.refunded, Range{0, self.restart_count});
    field("incarnation", self.incarnation);
    field("earlier", self.earlier, List{{0, kMaxEarlier}, {}});
  }
};

/// Appends the services of its members, in order of rank.
void AppendServices(const Assignment& generation, std::vector<std::string>* endpoints);

struct JobOutcome {
  bool success = false;
  int exit_code = 0;   // exit status of every mtrun of the job
  std::string reason;  // why the job ended; a failure that ended it is only in `root_cause`
  std::optional<WorkerFailure> root_cause;
  bool stopped = false;  // ended by an operator (mtrun --stop), not by a failure
  bool operator==(const JobOutcome&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("success", self.success);
    field("exit_code", self.exit_code);
    field("reason", self.reason, Size{0, kMaxText});
    field("root_cause", self.root_cause);
    field("stopped", self.stopped);
  }
};

// ---- agent -> service ----
struct OfferSent {  // the node joins, or is ready again after a dissolved generation
  Offer offer;
  // The newest generation assigned to the agent that it had heard of when it made this offer.
  Generation seen = {};
  bool operator==(const OfferSent&) const = default;
  static void Fields(auto& self, auto&& field) {
    Offer::Fields(self.offer, field);
    field("seen", self.seen);
  }
};
struct WorkerFailed {
  Generation generation;
  WorkerFailure failure;
  bool operator==(const WorkerFailed&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("failure", self.failure);
  }
};
struct WorkersFinished {  // all workers of this node exited 0 (ordinary) or said done (cooperative)
  Generation generation;
  bool final = false;  // cooperative: the job's result is safe on disk; later deaths do not matter
  bool operator==(const WorkersFinished&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("final", self.final);
  }
};
struct Leaving {  // this agent leaves (signal, drain)
  NodeLeft why;
  bool stopping = false;  // its workers still run; a second message follows when they are gone
  bool operator==(const Leaving&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("why", self.why);
    field("stopping", self.stopping);
  }
};
struct StoreSet {
  Generation generation;
  std::string key, value;
  bool operator==(const StoreSet&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("key", self.key);
    field("value", self.value);
  }
};
struct StoreRead {  // answered by StoreReply with the same id: at once, or (wait) when all keys are set
  Generation generation;
  int64_t id = 0;
  std::vector<std::string> keys;
  bool wait = true;
  bool operator==(const StoreRead&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("id", self.id);
    field("keys", self.keys);
    field("wait", self.wait);
  }
};
struct CollectivesBroken {  // a cooperative worker cannot continue, and no process of this node has failed
  Generation generation;
  int rank = 0;
  std::string why;
  bool unconnected = false;  // the worker's group never connected in that generation
  bool operator==(const CollectivesBroken&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("rank", self.rank, Range{0, int64_t{kMaxNodes} * kMaxWorkersPerNode});
    field("why", self.why, Size{0, kMaxText});
    field("unconnected", self.unconnected);
  }
};
/// A worker of the generation has tried for seconds to connect to a worker of another node, and nothing
/// answers there.
struct PeerUnreached {
  Generation generation;
  int rank = 0;  // the rank that tries
  int peer = 0;  // the rank that it does not reach
  bool operator==(const PeerUnreached&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("rank", self.rank, Range{0, int64_t{kMaxNodes} * kMaxWorkersPerNode});
    field("peer", self.peer, Range{0, int64_t{kMaxNodes} * kMaxWorkersPerNode});
  }
};
struct StepsCommitted {  // progress of the job, sent now and then by the agent of rank 0
  Generation generation;
  int64_t step = 0;  // finished steps since the job began
  bool operator==(const StepsCommitted&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("step", self.step, Range{0, int64_t{1} << 53});
  }
};
/// In the order of the wire's oneof.
using AgentEvent = std::variant<OfferSent, WorkerFailed, WorkersFinished, Leaving, StoreSet, StoreRead,
                                CollectivesBroken, StepsCommitted, LogPart, NodeUse, PeerUnreached>;

// ---- service -> agent ----
/// One object shared by all members: it grows with their number, and each of them gets it.
class Assigned {
 public:
  explicit Assigned(Assignment assignment)
      : assignment_(std::make_shared<const Assignment>(std::move(assignment))) {}
  const Assignment& assignment() const { return *assignment_; }
  bool operator==(const Assigned& other) const {
    return assignment_ == other.assignment_ || *assignment_ == *other.assignment_;
  }

 private:
  std::shared_ptr<const Assignment> assignment_;
};
/// The members of a generation, sent to nodes outside of it. They pass it to a service that knows nothing, so
/// that it knows which members it must account for.
struct Membership {
  Assigned generation;
  bool operator==(const Membership&) const = default;
};
struct GenerationDissolved {  // stop (ordinary) or regroup (cooperative), then send a new offer
  Generation generation;
  Cause cause;
  int restart_count = 0;
  int refunded = 0;
  bool graceful = false;  // no member is lost: cooperative workers leave it after a step
  bool operator==(const GenerationDissolved&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("cause", self.cause);
    field("restart_count", self.restart_count);
    field("refunded", self.refunded);
    field("graceful", self.graceful);
  }
};
struct JobEnded {
  JobOutcome outcome;
  bool operator==(const JobEnded&) const = default;
  static void Fields(auto& self, auto&& field) { JobOutcome::Fields(self.outcome, field); }
};
struct Refused {  // final: this agent may not join (other settings, another run, a broken protocol)
  Cause cause;
  bool operator==(const Refused&) const = default;
  static void Fields(auto& self, auto&& field) { field("cause", self.cause); }
};
struct Waiting {  // news for people while nothing runs: "2 of 3 nodes are here; waiting for 1 more", "spare"
  std::string text;
  bool operator==(const Waiting&) const = default;
};
struct StoreReply {
  Generation generation;
  int64_t id = 0;
  std::map<std::string, std::string> values;
  std::string error;
  bool operator==(const StoreReply&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("generation", self.generation);
    field("id", self.id);
    field("values", self.values);
    field("error", self.error);
  }
};
struct Redirect {  // another service of the list has the job
  std::string endpoint, reason;
  bool operator==(const Redirect&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("endpoint", self.endpoint, Size{0, kMaxText});
    field("reason", self.reason, Size{0, kMaxText});
  }
};
/// Failures were given back while the generation runs; agents keep it for a service that knows nothing.
struct BudgetChanged {
  int restart_count = 0, refunded = 0;
  bool operator==(const BudgetChanged&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("restart_count", self.restart_count);
    field("refunded", self.refunded);
  }
};
/// In the order of the wire's oneof.
using ServiceEvent = std::variant<Assigned, GenerationDissolved, JobEnded, Refused, Waiting, StoreReply,
                                  Redirect, BudgetChanged, Membership, ControlCall, LogRequest, UseAsked>;

/// The answer to a heartbeat: confirms that the service counts this node in the running generation.
struct Lease {
  Duration sent = Duration::zero();  // when the heartbeat was sent, by the node's own clock (BootNow())
  Generation generation = {};  // the one that the node is in; {0, 0} for none, or if the job may be elsewhere
  bool authority = false;      // the service has the job
  Generation settled = {};     // the last generation, if no earlier one can be followed any more
  Generation newest = {};  // for a node that is in none: a generation that no node has left for a later one
  bool operator==(const Lease&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("sent", self.sent);
    field("generation", self.generation);
    field("authority", self.authority);
    field("settled", self.settled);
    field("newest", self.newest);
  }
};
std::string Describe(const Generation& generation);
std::string Describe(const Assignment& assignment);
std::string Describe(const JobOutcome& outcome);
JobOutcome FailedOutcome(std::string reason, int exit_code = 1);
/// Returns the job's exit status for this failure: the worker's own, or 128 + its signal; at least 1.
int ExitCodeOf(const WorkerFailure& failure);
std::string Describe(const GenerationDissolved& dissolved);
std::string WhyRefused(const Refused& refused);   // the cause, then what to do
std::string WhyEnded(const JobOutcome& outcome);  // one sentence: the root cause, then the reason
std::string Describe(const AgentEvent& event);
std::string Describe(const ServiceEvent& event);

}  // namespace mtrun::rendezvous

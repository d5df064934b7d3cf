// The nouns of the rendezvous: what a node offers, what a generation assigns, how a job ends. Values with ==
// and Describe(). Each lists its fields once (fields.h): a new field is a member, its row and a line in
// rendezvous.proto.
#pragma once

#include <algorithm>
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
#include "rendezvous/control_call.h"
#include "rendezvous/fields.h"
#include "rendezvous/log_call.h"
#include "rendezvous/node_use.h"
#include "rendezvous/peer_unreached.h"

namespace mtrun::rendezvous {

using Generation = channel::Generation;

/// What shells say of a program that is not there, and of one that is and cannot be executed.
inline constexpr int kNoSuchProgramStatus = 127, kNotExecutableStatus = 126;
/// What trainers exit with when their settings are wrong: another try is no use.
inline constexpr int kWrongSettingsStatus = 2;

/// One agent's offer for the next generation. Sent at joining and again whenever the agent is ready for
/// another generation.
struct Offer {
  std::string node_id;           // unique for one agent process: "<host>-<pid>-<random>"
  std::string host;              // host name; the first formation orders nodes naturally by it
  std::string address;           // where peers reach this node
  int workers = 1;               // how many it starts
  std::optional<int> node_rank;  // --node_rank: decides the order where given
  int master_port = 0;           // a port held open on this node, MASTER_PORT if it becomes node 0
  int presence_port = 0;         // processes of this node hold it open while one lives, 0: none
  uint64_t presence_id = 0;      // what the guardian answers there, 0: nothing
  int service_port = 0;          // of a rendezvous service in this agent that may take the job over, 0: none
  std::string role = "default";
  bool ends_step = false;  // its workers may still end the step behind which they leave the last generation
  bool leaves = false;     // the node was told to go: only a survivor of the last generation is a candidate
  std::optional<Generation> holds;  // the generation whose workers this agent still runs (after a reconnect)
  bool operator==(const Offer&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("node_id", self.node_id, Size{1, kMaxName});
    field("host", self.host, Size{0, kMaxName});
    field("address", self.address, Size{0, kMaxName});
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
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
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

/// A generation before an assignment's whose members may not all know yet that it was followed: another one
/// of several services could follow it too (Predecessors). Its members are those of the assignment without
/// the newcomers, and the others.
struct EarlierGeneration {
  Generation generation;
  std::vector<std::string> newcomers;  // node ids: members of the assignment that were not in it
  std::vector<Member> others;          // those of it that are not in the assignment, but for those that left
  std::vector<std::string> gone;       // node ids, of the others: dead or evicted
  bool operator==(const EarlierGeneration&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
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
  std::string master_address;  // node 0's
  int master_port = 0;
  int restart_count = 0;     // failures used from the job-wide budget
  int refunded = 0;          // of those, given back since
  uint64_t incarnation = 0;  // of the job: another run under the same id has another one; random, not 0
  // The oldest first. None once its members have heard that nobody can follow an earlier one any more
  // (Lease).
  std::vector<EarlierGeneration> earlier;
  bool operator==(const Assignment&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
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

/// The services of its members, in order of rank.
void AppendServices(const Assignment& generation, std::vector<std::string>* endpoints);

/// How one worker ended, as its agent saw it.
struct WorkerFailure {
  std::string host;
  int rank = 0, local_rank = 0;
  int64_t pid = 0;
  int exit_code = 0;  // valid when signal is 0
  int signal = 0;
  std::string log_file;   // its standard error on `host`, "" for none
  std::string message;    // from the error file, or the last lines of its standard error
  std::string wall_time;  // for people
  bool early = false;     // it had never been ready to take part
  int64_t failed_at_ns =
      0;  // its node's wall clock, ns since 1970, 0: unknown; only to choose the root cause
  bool operator==(const WorkerFailure&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("host", self.host, Size{0, kMaxText});
    field("rank", self.rank);
    field("local_rank", self.local_rank);
    field("pid", self.pid);
    field("exit_code", self.exit_code, Range{-255, 255});
    field("signal", self.signal, Range{0, 127});
    field("log_file", self.log_file, Size{0, kMaxText});
    field("message", self.message, Size{0, kMaxText});
    field("wall_time", self.wall_time, Size{0, kMaxText});
    field("early", self.early);
    field("failed_at_ns", self.failed_at_ns);
  }
};

struct JobOutcome {
  bool success = false;
  int exit_code = 0;   // what every mtrun of the job exits with
  std::string reason;  // why the job ended; a failure that it ended for is told by `root_cause` alone
  std::optional<WorkerFailure> root_cause;
  bool stopped = false;  // somebody has ended it (mtrun --stop): a failure of nobody
  bool operator==(const JobOutcome&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("success", self.success);
    field("exit_code", self.exit_code);
    field("reason", self.reason, Size{0, kMaxText});
    field("root_cause", self.root_cause);
    field("stopped", self.stopped);
  }
};

// ---- agent -> service ----
struct OfferSent {  // join, or ready again after a dissolved generation
  Offer offer;
  bool operator==(const OfferSent&) const = default;
};
struct WorkerFailed {
  Generation generation;
  WorkerFailure failure;
  bool operator==(const WorkerFailed&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("generation", self.generation);
    field("failure", self.failure);
  }
};
struct WorkersFinished {  // all workers of this node exited 0 (ordinary) or said done (cooperative)
  Generation generation;
  bool final = false;  // cooperative: the job's result is safe on disk; deaths after this do not matter
  bool operator==(const WorkersFinished&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("generation", self.generation);
    field("final", self.final);
  }
};
struct Leaving {  // this agent goes (signal, drain)
  std::string why;
  bool stopping = false;  // its workers still run: it says so again when they are gone
  bool operator==(const Leaving&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("why", self.why, Size{0, kMaxText});
    field("stopping", self.stopping);
  }
};
struct StoreSet {
  Generation generation;
  std::string key, value;
  bool operator==(const StoreSet&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("generation", self.generation);
    field("key", self.key);
    field("value", self.value);
  }
};
struct StoreRead {  // answered by StoreReply with the same id: at once, or (wait) when all keys are there
  Generation generation;
  int64_t id = 0;
  std::vector<std::string> keys;
  bool wait = true;
  bool operator==(const StoreRead&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("generation", self.generation);
    field("id", self.id);
    field("keys", self.keys);
    field("wait", self.wait);
  }
};
struct CollectivesBroken {  // a cooperative worker cannot go on, although no process of this node has failed
  Generation generation;
  int rank = 0;
  std::string why;
  bool unconnected = false;  // the worker's group of that generation had never come about
  bool operator==(const CollectivesBroken&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("generation", self.generation);
    field("rank", self.rank, Range{0, int64_t{kMaxNodes} * kMaxWorkersPerNode});
    field("why", self.why, Size{0, kMaxText});
    field("unconnected", self.unconnected);
  }
};
struct StepsCommitted {  // how far the job is, now and then, from the agent of rank 0
  Generation generation;
  int64_t step = 0;  // finished steps since the job began
  bool operator==(const StepsCommitted&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("generation", self.generation);
    field("step", self.step, Range{0, int64_t{1} << 53});
  }
};
using AgentEvent = std::variant<OfferSent, WorkerFailed, WorkersFinished, Leaving, StoreSet, StoreRead,
                                CollectivesBroken, StepsCommitted, LogPart, NodeUse, PeerUnreached>;

// ---- service -> agent ----
/// One object for all members: it grows with their number, and each of them gets it.
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
/// To nodes outside of a generation: who is in it. They give it to a service that knows nothing, so that it
/// knows whom it must account for.
struct Membership {
  Assigned generation;
  bool operator==(const Membership&) const = default;
};
struct GenerationDissolved {  // stop (ordinary) or regroup (cooperative), then send a new offer
  Generation generation;
  std::string reason;
  int restart_count = 0;
  int refunded = 0;
  bool graceful = false;  // no member is lost: cooperative workers leave it after a step
  bool operator==(const GenerationDissolved&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("generation", self.generation);
    field("reason", self.reason, Size{0, kMaxText});
    field("restart_count", self.restart_count);
    field("refunded", self.refunded);
    field("graceful", self.graceful);
  }
};
struct JobEnded {
  JobOutcome outcome;
  bool operator==(const JobEnded&) const = default;
};
struct Refused {  // this agent may not take part (other settings, other protocol, job over); final
  std::string reason;
  bool operator==(const Refused&) const = default;
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
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("generation", self.generation);
    field("id", self.id);
    field("values", self.values);
    field("error", self.error);
  }
};
struct Redirect {  // another service of the list has the job
  std::string endpoint, reason;
  bool operator==(const Redirect&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("endpoint", self.endpoint, Size{0, kMaxText});
    field("reason", self.reason, Size{0, kMaxText});
  }
};
/// Failures were given back while the generation runs; kept for a service that knows nothing.
struct BudgetChanged {
  int restart_count = 0, refunded = 0;
  bool operator==(const BudgetChanged&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("restart_count", self.restart_count);
    field("refunded", self.refunded);
  }
};
using ServiceEvent = std::variant<Assigned, GenerationDissolved, JobEnded, Refused, Waiting, StoreReply,
                                  Redirect, BudgetChanged, Membership, ControlCall, LogRequest, UseAsked>;

/// The answer to a heartbeat: the service has heard this node in the generation that runs.
struct Lease {
  Duration sent = Duration::zero();  // the heartbeat, by the node's own clock (BootNow())
  Generation generation = {};        // that the node is in, {0, 0} for none or where the job may be elsewhere
  bool authority = false;            // the service has the job
  Generation settled = {};           // the newest one, if nobody can follow an earlier one any more
  Generation newest = {};  // to a node that is in none: from which nobody has gone on to another one
  bool operator==(const Lease&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("sent", self.sent);
    field("generation", self.generation);
    field("authority", self.authority);
    field("settled", self.settled);
    field("newest", self.newest);
  }
};
std::string Describe(const Generation& generation);
std::string Describe(const Assignment& assignment);
/// One line: "rank 1 (local 1, pid 123) on node2: killed by SIGKILL".
std::string Describe(const WorkerFailure& failure);
std::string DescribeWithLog(const WorkerFailure& failure);  // the same and where its log lies
std::string Describe(const JobOutcome& outcome);
JobOutcome FailedOutcome(std::string reason, int exit_code = 1);
/// What the job exits with for it: the worker's own status, 128 + its signal, at least 1.
int ExitCodeOf(const WorkerFailure& failure);
std::string WhyEnded(const JobOutcome& outcome);  // one sentence: the root cause, then the reason
std::string Describe(const AgentEvent& event);
std::string Describe(const ServiceEvent& event);

}  // namespace mtrun::rendezvous

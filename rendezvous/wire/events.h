// Inputs and outputs of a job's state machine, as values.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "rendezvous/wire/job_run.h"
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

// ---- in ----
/// A node's stream has been opened, for the first time or again.
struct StreamOpened {
  JobSettings settings;
  Generation seen;                      // the newest generation ever assigned to this agent, {0, 0} for none
  int seen_restarts = 0;                // number of failures, as it was last told
  int seen_refunds = 0;                 // failures given back out of those
  std::optional<Assignment> last = {};  // the newest generation that it knows of, unless it runs one
  uint64_t incarnation = 0;             // of the run of the job that it was in or knows of, 0 for none
  // By its own clock, how long it had not reached a service that had the job, when its host was found dead.
  Duration silence = Duration(kMaxNanoseconds);
  bool operator==(const StreamOpened&) const = default;
  /// Fields of the message Hello.
  static void Fields(auto& self, auto&& field) {
    field("settings", self.settings);
    field("seen", self.seen);
    field("seen_restarts", self.seen_restarts, Range{0, kMaxRestarts});
    field("seen_refunds", self.seen_refunds, Range{0, self.seen_restarts});
    field("last", self.last);
    field("incarnation", self.incarnation);
    field("silence", self.silence, Range{0, kMaxNanoseconds});
  }
};
struct StreamClosed {
  NodeLost why;
  bool operator==(const StreamClosed&) const = default;
};
struct Heartbeat {
  Duration main_loop_age = Duration::zero();  // since the last turn of the agent's main loop
  std::string note = {};                      // shown to people by the status, "" for nothing
  Duration sent = Duration::zero();           // since the agent's machine started (CLOCK_BOOTTIME)
  Generation knows = {};                      // the newest generation that the agent knows of
  bool ordinary = false;                      // not all its workers have said that they outlive a generation
  bool operator==(const Heartbeat&) const = default;
  static void Fields(auto& self, auto&& field) {
    field("main_loop_age", self.main_loop_age, Range{0, kMaxNanoseconds});
    field("note", self.note, Size{0, kMaxText});
    field("sent", self.sent);
    field("knows", self.knows);
    field("ordinary", self.ordinary);
  }
};
/// Returns the generation that the event is about, {0, 0} for none.
Generation GenerationOf(const AgentEvent& event);

struct AgentSaid {
  AgentEvent event;
  std::optional<Assignment> held;  // with an Offer that holds a generation: its membership
  bool operator==(const AgentSaid&) const = default;
  static void Fields(auto& self, auto&& field) { field("event", self.event); }  // `held` is in the offer
};
/// Result of a probe of another service, if this is one of several (JobMachine::WantsProbe).
struct PeerService {
  enum class State {
    kSilent,      // no answer: it may have the job
    kGone,        // its host answers that there is no such process
    kSelf,        // the service that asks
    kWithoutJob,  // it answers that it does not know this job, or only how it ended
    kWithJob,
  };
  std::string endpoint;
  State state = State::kSilent;
  Generation generation = {};        // with the job: the newest one it knows, {0, 0} for none
  bool authority = false;            // with the job: it may change the membership
  uint64_t incarnation = 0;          // the run that it has; 0: unknown
  RunProof proof = RunProof::kNone;  // why it is certain of that run
  uint64_t last_number = 0;  // highest generation number it has known, even if it has forgotten the job
  std::vector<EndedRun> ended = {};  // runs of the job that ended there
  /// Returns its record of the end of this run; null if it has none.
  const EndedRun* FindEnd(const JobRun& run) const {
    const auto end = std::find_if(ended.begin(), ended.end(),
                                  [&](const EndedRun& e) { return e.incarnation == run.incarnation(); });
    return end == ended.end() ? nullptr : &*end;
  }
  bool operator==(const PeerService&) const = default;
};
struct ProbeResult {
  std::vector<PeerService> peers;  // in the order of the job's endpoints
  // Members whose host answers that no process of theirs lives. A firewall that rejects looks the same, so a
  // member counts as dead only if it was in `alive` before.
  std::set<std::string> dead;
  std::set<std::string> alive = {};  // members whose id was read through their presence port
  Duration took = Duration::zero();  // the answers may be this old
  bool heard = false;                // a service has asked this one; `peers` has that service only
  bool operator==(const ProbeResult&) const = default;
};
/// Time has passed. Due at NextDeadline(); harmless at any other time.
struct Tick {
  bool operator==(const Tick&) const = default;
};
/// A request to the job from outside. A request that does not fit (control_choice.h) changes nothing: an
/// eviction of a connected node, a drain of an absent one.
struct ControlAsked {
  ControlCall call;
  std::string node_id = {};  // the node that it is about
  bool operator==(const ControlAsked&) const = default;
};
struct Event {
  std::string node_id;  // "" for Tick, ProbeResult and ControlAsked
  std::variant<StreamOpened, StreamClosed, Heartbeat, AgentSaid, Tick, ProbeResult, ControlAsked> what;
};

/// Address of a member's presence port, and the id that it answers there.
struct PresenceProbe {
  std::string endpoint;  // host:port
  uint64_t id = 0;
  bool operator==(const PresenceProbe&) const = default;
};
PresenceProbe ProbeOf(const Member& member);
/// Location of the service that answers a session.
struct ServiceHost {
  bool embedded = false;   // it is part of an mtrun, and ends with it
  PresenceProbe presence;  // of that mtrun; no id: unknown
  // Where it answered, if not at the job's endpoint, behind which another machine may come to be.
  std::string service = {};
  bool operator==(const ServiceHost&) const = default;
};

/// A service's request for information.
struct ProbeRequest {
  std::string job_id;
  std::vector<std::string> endpoints;            // endpoints of the services, if there are several
  Generation generation = {};                    // the newest one known here, to tell the other services
  uint64_t incarnation = 0;                      // incarnation of its run
  bool authority = false;                        // this service may change the membership
  std::map<std::string, PresenceProbe> members;  // by node id
};

// ---- out, to be performed in order ----
struct Send {
  std::string node_id;
  ServiceEvent event;
  bool operator==(const Send&) const = default;
};
/// Closes the node's stream after everything sent before has arrived, and forgets its session.
struct CloseSession {
  std::string node_id;
  bool operator==(const CloseSession&) const = default;
};
/// A decision with its reason, for the log.
struct LogLine {
  std::string text;
  bool detail = false;              // the user of an mtrun that hosts the service does not need it
  std::optional<Cause> cause = {};  // why a node is not in the job any more
  bool operator==(const LogLine&) const = default;
};
using Effect = std::variant<Send, CloseSession, LogLine>;

std::string Describe(const Event& event);
std::string Describe(const Effect& effect);

}  // namespace mtrun::rendezvous

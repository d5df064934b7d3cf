// What goes into a job's state machine and what comes out of it, as values.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "rendezvous/job_run.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

// ---- in ----
/// A node's stream is there, for the first time or again.
struct StreamOpened {
  JobSettings settings;
  Generation seen;                      // the newest generation this agent was ever assigned, {0, 0} for none
  int seen_restarts = 0;                // failures in all, as it was told last
  int seen_refunds = 0;                 // of those, given back
  std::optional<Assignment> last = {};  // the newest generation that it knows of, unless it runs one
  uint64_t incarnation = 0;             // of the job that it was in or heard of, 0 for none
  // How long no service that had the job had heard it when its host was found dead, by its own clock.
  Duration silence = Duration(kMaxNanoseconds);
  bool operator==(const StreamOpened&) const = default;
  /// Of the message Hello.
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
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
  std::string why;
  bool operator==(const StreamClosed&) const = default;
};
struct Heartbeat {
  Duration main_loop_age = Duration::zero();  // since the agent's main loop last turned
  std::string note = {};                      // what the agent wants people to see, "" for nothing
  Duration sent = Duration::zero();           // since the agent's machine started (CLOCK_BOOTTIME)
  Generation knows = {};                      // the newest one that the agent has heard of
  bool operator==(const Heartbeat&) const = default;
  template <typename Self, typename Field>
  static void Fields(Self& self, Field&& field) {
    field("main_loop_age", self.main_loop_age, Range{0, kMaxNanoseconds});
    field("note", self.note, Size{0, kMaxText});
    field("sent", self.sent);
    field("knows", self.knows);
  }
};
/// That the event is about, {0, 0} for none.
Generation GenerationOf(const AgentEvent& event);

struct AgentSaid {
  AgentEvent event;
  std::optional<Assignment> held;  // beside an Offer that holds a generation: its membership
  Generation seen =
      {};  // beside an Offer: the newest generation the agent had been assigned when it sent this
  bool operator==(const AgentSaid&) const = default;
};
/// What a look around found, for a service that is one of several (JobMachine::WantsProbe).
struct PeerService {
  enum class State {
    kSilent,      // no answer: it may have the job
    kGone,        // its host answers that there is no such process
    kSelf,        // the service that asks
    kWithoutJob,  // it answers, and does not know this job, or only how it ended
    kWithJob,
  };
  std::string endpoint;
  State state = State::kSilent;
  Generation generation;             // with the job: the newest it knows, {0, 0} for none
  bool authority = false;            // with the job: it may change the membership
  uint64_t incarnation = 0;          // of the run that it has; 0: unknown
  RunProof proof = RunProof::kNone;  // that it has that run
  uint64_t last_number = 0;          // of generations that it has known, also where it has forgotten the job
  std::vector<EndedRun> ended = {};  // runs of the job that are over there
  /// How it answers that this run is over; null where it does not.
  const EndedRun* FindEnd(const JobRun& run) const {
    const auto end = std::find_if(ended.begin(), ended.end(),
                                  [&](const EndedRun& e) { return e.incarnation == run.incarnation(); });
    return end == ended.end() ? nullptr : &*end;
  }
  bool operator==(const PeerService&) const = default;
};
struct ProbeResult {
  std::vector<PeerService> peers;  // in the order of the job's endpoints
  // Members whose host answers that no process of theirs lives. A firewall that rejects looks the same, so it
  // counts only for one that was among `alive` before.
  std::set<std::string> dead;
  std::set<std::string> alive = {};  // members whose id was read through their presence port
  Duration took = Duration::zero();  // what was seen may be so old
  bool heard = false;                // one service has asked this one, and is all there is in `peers`
  bool operator==(const ProbeResult&) const = default;
};
/// Time has passed. Due at NextDeadline(); harmless at any other time.
struct Tick {
  bool operator==(const Tick&) const = default;
};
/// Somebody asks something of the job from outside. What does not fit (control_choice.h) changes nothing: an
/// eviction of a node that is connected, a drain of one that is not here.
struct ControlAsked {
  ControlCall call;
  std::string node_id = {};  // the node that it is about
  bool operator==(const ControlAsked&) const = default;
};
struct Event {
  std::string node_id;  // "" for Tick, ProbeResult and ControlAsked
  std::variant<StreamOpened, StreamClosed, Heartbeat, AgentSaid, Tick, ProbeResult, ControlAsked> what;
};

/// Where a member's presence port is and what it answers there.
struct PresenceProbe {
  std::string endpoint;  // host:port
  uint64_t id = 0;
  bool operator==(const PresenceProbe&) const = default;
};
PresenceProbe ProbeOf(const Member& member);
/// Where the service lives that answers a session.
struct ServiceHost {
  bool embedded = false;   // in an mtrun, and ends with it
  PresenceProbe presence;  // of that one; no id: none is known
  // Where it answered, if not at the job's endpoint, behind which another machine may come to be.
  std::string service = {};
  bool operator==(const ServiceHost&) const = default;
};

/// What a service should find out.
struct ProbeRequest {
  std::string job_id;
  std::vector<std::string> endpoints;            // of the services, when there are several
  Generation generation = {};                    // the newest that is known here, for them to hear of
  uint64_t incarnation = 0;                      // of its run
  bool authority = false;                        // this service may change the membership
  std::map<std::string, PresenceProbe> members;  // by node id
};

// ---- out, to be performed in order ----
struct Send {
  std::string node_id;
  ServiceEvent event;
  bool operator==(const Send&) const = default;
};
/// Close the node's stream once what was sent before is through, and forget its session.
struct CloseSession {
  std::string node_id;
  bool operator==(const CloseSession&) const = default;
};
/// A decision with its reason, for the log.
struct LogLine {
  std::string text;
  bool told = false;  // every agent hears it as well and says so itself
  bool operator==(const LogLine&) const = default;
};
using Effect = std::variant<Send, CloseSession, LogLine>;

std::string Describe(const Event& event);
std::string Describe(const Effect& effect);

}  // namespace mtrun::rendezvous

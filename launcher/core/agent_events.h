// What happens to one node's agent and what it does about it: events in, effects out, both plain values with
// Describe().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/worker_channel.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

// ---- events
// ---------------------------------------------------------------------------------------------------
struct SessionConnected {  // also after each reconnect
  bool operator==(const SessionConnected&) const = default;
};
struct SessionDisconnected {
  std::string why;
  bool operator==(const SessionDisconnected&) const = default;
};
/// The service has heard this node: others form no generation without it before then.
struct LeaseRenewed {
  TimePoint ends;
  bool operator==(const LeaseRenewed&) const = default;
};
struct SessionFailed {  // final
  std::string why;
  bool operator==(const SessionFailed&) const = default;
};
/// The process of a worker ended, or could not be started (then `message` says why).
struct WorkerExited {
  int local_rank = 0;
  int64_t pid = 0;
  int exit_code = 0;  // valid when signal is 0
  int signal = 0;
  std::string log_file = {}, message = {}, wall_time = {};
  int64_t failed_at_ns = 0;  // wall clock since 1970: when its error was recorded, else when it ended
  bool recorded = false;     // it had written an error file
  bool by_lease = false;     // the guardian killed it because this node's lease had ended
  bool operator==(const WorkerExited&) const = default;
};
/// After WorkerExited: no process of the worker's group is left either.
struct WorkerGone {
  int local_rank = 0;
  bool operator==(const WorkerGone&) const = default;
};
struct WorkerSaid {
  int local_rank = 0;
  channel::WorkerMessage message;
  bool operator==(const WorkerSaid&) const = default;
};
struct SignalReceived {
  int signal = 0;
  bool operator==(const SignalReceived&) const = default;
};
/// --preempt_file: this node is to go.
struct PreemptFileAppeared {
  bool operator==(const PreemptFileAppeared&) const = default;
};
/// Nothing happened; a deadline may have passed.
struct Tick {
  bool operator==(const Tick&) const = default;
};
using Event =
    std::variant<rendezvous::ServiceEvent, SessionConnected, SessionDisconnected, LeaseRenewed, SessionFailed,
                 WorkerExited, WorkerGone, WorkerSaid, SignalReceived, PreemptFileAppeared, Tick>;

// ---- effects, to be performed in order
// --------------------------------------------------------------------------
/// Complete `offer` with a master port and send it. `fresh`: a new generation is wanted, so with a new port.
struct SendOffer {
  rendezvous::Offer offer;
  bool fresh = false;
  bool operator==(const SendOffer&) const = default;
};
struct SendToService {
  rendezvous::AgentEvent event;
  bool operator==(const SendToService&) const = default;
};
/// Start these workers of this node, which is `assignment.members[member]`: all of them, or those that take
/// the place of dead ones beside cooperative survivors. With `warm_up` no generation has a rank for them yet:
/// they prepare themselves and wait, and `assignment` is a placeholder, of this node alone.
struct StartWorkers {
  rendezvous::Assignment assignment;
  size_t member = 0;
  std::vector<int> local_ranks;
  bool warm_up = false;
  bool operator==(const StartWorkers&) const = default;
};
struct SignalWorkers {  // every worker's process group; SIGKILL ends them at once
  int signal = 0;
  bool operator==(const SignalWorkers&) const = default;
};
struct SignalWorker {  // one worker's process group
  int local_rank = 0;
  int signal = 0;
  bool operator==(const SignalWorker&) const = default;
};
struct SendToWorker {  // if it is connected
  int local_rank = 0;
  channel::AgentMessage message;
  bool operator==(const SendToWorker&) const = default;
};
/// Log the text together with what the kernel knows of the worker's process.
struct InspectWorker {
  int local_rank = 0;
  std::string text;
  bool operator==(const InspectWorker&) const = default;
};
/// Shown to people who ask the service for the job's status; "" for nothing.
struct ShowNote {
  std::string text;
  bool operator==(const ShowNote&) const = default;
};
/// Answer with what that worker has written; -1: no worker here has the rank.
struct ReadLog {
  rendezvous::LogRequest request;
  int local_rank = -1;
  bool operator==(const ReadLog&) const = default;
};
/// No worker is left: end whatever they started and forget the generation's files, connections and port.
/// `leave`: after a success; what they started lives on.
struct CleanUp {
  bool leave = false;
  bool operator==(const CleanUp&) const = default;
};
struct WriteLog {
  log::Level level = log::Level::kInfo;
  std::string text;
  bool operator==(const WriteLog&) const = default;
};
/// The end of this mtrun. With a failed outcome its box is printed first.
struct Exit {
  int code = 0;
  std::optional<rendezvous::JobOutcome> outcome;
  bool job_ended = false;  // the service has said so
  bool operator==(const Exit&) const = default;
};
using Effect = std::variant<SendOffer, SendToService, StartWorkers, SignalWorkers, SignalWorker, SendToWorker,
                            InspectWorker, ShowNote, ReadLog, CleanUp, WriteLog, Exit>;
using Effects = std::vector<Effect>;

std::string Describe(const Event& event);
std::string Describe(const Effect& effect);
std::string Describe(const Effects& effects);

}  // namespace mtrun::launcher

// Events and effects of one node's agent: plain values with Describe().
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/worker_channel.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

// ---- events ----
struct SessionConnected {  // also after each reconnect
  bool operator==(const SessionConnected&) const = default;
};
struct SessionDisconnected {
  std::string why;
  bool operator==(const SessionDisconnected&) const = default;
};
/// The service has received a message of this node: the others form no generation without it before `ends`.
struct LeaseRenewed {
  TimePoint ends;
  bool operator==(const LeaseRenewed&) const = default;
};
struct SessionFailed {  // final
  std::string why;
  bool operator==(const SessionFailed&) const = default;
};
/// A worker's process exited, or could not be started (`message` says why).
struct WorkerExited {
  int local_rank = 0;
  int64_t pid = 0;
  int exit_code = 0;  // valid when signal is 0
  int signal = 0;
  std::string log_file = {}, message = {}, wall_time = {};
  int64_t failed_at_ns = 0;  // wall clock since 1970: when its error was recorded, otherwise when it exited
  bool recorded = false;     // it wrote an error file
  bool by_lease = false;     // the guardian killed it because this node's lease had expired
  bool operator==(const WorkerExited&) const = default;
};
/// After WorkerExited: the worker's process group is empty.
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
/// --preempt_file: this node must leave.
struct PreemptFileAppeared {
  bool operator==(const PreemptFileAppeared&) const = default;
};
/// A deadline may have passed.
struct Tick {
  bool operator==(const Tick&) const = default;
};
using Event =
    std::variant<rendezvous::ServiceEvent, SessionConnected, SessionDisconnected, LeaseRenewed, SessionFailed,
                 WorkerExited, WorkerGone, WorkerSaid, SignalReceived, PreemptFileAppeared, Tick>;

// ---- effects, in the order to perform them ----
/// Complete `offer` with a master port, a new one if `fresh` (for a new generation), and send it.
struct SendOffer {
  rendezvous::Offer offer;
  bool fresh = false;
  rendezvous::Generation seen = {};  // see rendezvous::OfferSent
  bool operator==(const SendOffer&) const = default;
};
struct SendToService {
  rendezvous::AgentEvent event;
  bool operator==(const SendToService&) const = default;
};
/// Start these workers of this node, which is `assignment.members[member]`: all of them, or the replacements
/// of dead ones beside cooperative survivors. If `warm_up` is set, no generation has a rank for them yet:
/// they prepare themselves and wait, and `assignment` is a placeholder with this node alone.
struct StartWorkers {
  rendezvous::Assignment assignment;
  size_t member = 0;
  std::vector<int> local_ranks;
  bool warm_up = false;
  bool operator==(const StartWorkers&) const = default;
};
struct SignalWorkers {  // sent to every worker's process group; SIGKILL at once
  int signal = 0;
  bool operator==(const SignalWorkers&) const = default;
};
struct SignalWorker {  // sent to one worker's process group
  int local_rank = 0;
  int signal = 0;
  bool operator==(const SignalWorker&) const = default;
};
struct SendToWorker {  // if it is connected
  int local_rank = 0;
  channel::AgentMessage message;
  bool operator==(const SendToWorker&) const = default;
};
/// Log the text together with the kernel's view of the worker's process.
struct InspectWorker {
  int local_rank = 0;
  std::string text;
  bool operator==(const InspectWorker&) const = default;
};
/// Show this in the job's status; "" for nothing.
struct ShowNote {
  std::string text;
  bool operator==(const ShowNote&) const = default;
};
/// Reply with the output of that worker; -1: no worker here has the rank.
struct ReadLog {
  rendezvous::LogRequest request;
  int local_rank = -1;
  bool operator==(const ReadLog&) const = default;
};
/// No worker is left: kill their remaining child processes and discard the generation's files, connections
/// and port. `leave`: after a success, keep the child processes.
struct CleanUp {
  bool leave = false;
  bool operator==(const CleanUp&) const = default;
};
struct WriteLog {
  log::Level level = log::Level::kInfo;
  std::string text;
  bool operator==(const WriteLog&) const = default;
};
/// Exit mtrun. If the outcome is a failure its box is printed first.
struct Exit {
  int code = 0;
  std::optional<rendezvous::JobOutcome> outcome;
  bool job_ended = false;  // according to the service
  bool operator==(const Exit&) const = default;
};
using Effect = std::variant<SendOffer, SendToService, StartWorkers, SignalWorkers, SignalWorker, SendToWorker,
                            InspectWorker, ShowNote, ReadLog, CleanUp, WriteLog, Exit>;
using Effects = std::vector<Effect>;

std::string Describe(const Event& event);
std::string Describe(const Effect& effect);
std::string Describe(const Effects& effects);

}  // namespace mtrun::launcher

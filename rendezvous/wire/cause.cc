#include "rendezvous/wire/cause.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/signal_name.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::rendezvous {
namespace {

constexpr char kUnknown[] = "for a reason that this version of mtrun does not know";

std::string HowItEnded(const WorkerFailure& failure) {
  return failure.signal != 0 ? absl::StrCat("killed by ", SignalName(failure.signal))
                             : absl::StrCat("exit code ", failure.exit_code);
}

std::string EqualText(const WorkerDied& died) {
  if (died.equal_failures == 0) return "";
  return absl::StrCat("; the last ", died.equal_failures, " failures are the same",
                      died.error.empty() ? "" : ": ", died.error,
                      "; if restarts cannot help, stop the job with Ctrl-C or mtrun --stop");
}

std::string LostText(const std::string& name, const NodeLost& lost) {
  const std::string is_lost = name + " is lost: ";
  switch (lost.how) {
    case NodeLost::How::kDropped:
      return is_lost + lost.detail;
    case NodeLost::How::kStreamEnded:
      return is_lost + "its stream ended";
    case NodeLost::How::kConnectionBroke:
      return is_lost + "its connection broke";
    case NodeLost::How::kAgentGone:
      return is_lost + "its agent is gone";
    case NodeLost::How::kNotBack:
      return is_lost + "it did not come back to the new service";
    case NodeLost::How::kSilent:
      return absl::StrCat(is_lost, "no heartbeat for ", HumanDuration(lost.time),
                          " (--rdzv_conf keep_alive_interval)");
    case NodeLost::How::kEvicted:
      return absl::StrCat(is_lost, "evicted by ", Describe(lost.by));
  }
  return is_lost + kUnknown;
}

std::string UnfitText(const std::string& name, const WorkerFailure& failure) {
  return absl::StrCat(DescribeWithLog(failure), failure.message.empty() ? "" : ": ", failure.message, "; ",
                      WhyHopeless(failure, /*trainer=*/true), "; the job continues on the others: ", name,
                      " is evicted");
}

std::string NewerText(const std::string& name, const NewerGeneration& newer) {
  const std::string generation = absl::StrCat("generation ", newer.generation.number);
  if (newer.source == NewerGeneration::Source::kAssigned)
    return absl::StrCat("the service has moved on to ", generation);
  const bool known = newer.source == NewerGeneration::Source::kKnown;
  return absl::StrCat(name, known ? " knows of the higher " : " reports the higher ", generation);
}

}  // namespace

std::string RestartText(int count, int refunded, int max_restarts) {
  if (refunded == 0)
    return absl::StrCat("restart ", count, count <= max_restarts ? absl::StrCat(" of ", max_restarts) : "");
  return absl::StrCat("restart ", count, " (", count - refunded, " of ", max_restarts, " used)");
}

std::string WhyHopeless(const WorkerFailure& failure, bool trainer) {
  const bool not_startable =
      failure.exit_code == kNoSuchProgramStatus || failure.exit_code == kNotExecutableStatus;
  if (failure.pid == 0 && not_startable) return "its program cannot be started; not retried";
  if (!trainer || failure.signal != 0) return "";
  if (failure.exit_code == kDifferentStatesStatus) {
    return absl::StrCat("exit status ", kDifferentStatesStatus,
                        " means different states of one step; not retried");
  }
  if (failure.exit_code != kWrongSettingsStatus) return "";
  return absl::StrCat("exit status ", kWrongSettingsStatus, " means wrong settings; not retried");
}

std::string Brief(const WorkerFailure& failure) {
  return absl::StrCat(failure.rank < 0 ? absl::StrCat("local rank ", failure.local_rank)
                                       : absl::StrCat("rank ", failure.rank),
                      " on ", failure.host, ": ", HowItEnded(failure));
}

std::string Describe(const WorkerFailure& f) {
  // A worker that died before any generation has no rank yet.
  const std::string who = f.rank < 0
                              ? absl::StrCat("local rank ", f.local_rank, " (pid ", f.pid)
                              : absl::StrCat("rank ", f.rank, " (local ", f.local_rank, ", pid ", f.pid);
  return absl::StrCat(who, ") on ", f.host, ": ", HowItEnded(f));
}

std::string DescribeWithLog(const WorkerFailure& failure) {
  if (failure.log_file.empty()) return Describe(failure);
  return absl::StrCat(Describe(failure), ", log ", failure.host, ":", failure.log_file);
}

std::string Describe(const NodeLeft& left) {
  const std::string host = left.host.empty() ? "" : left.host + " ";
  switch (left.why) {
    case NodeLeft::Why::kSentAway:
      return left.detail;
    case NodeLeft::Why::kSignal:
      return absl::StrCat(host, "received ", SignalName(left.signal));
    case NodeLeft::Why::kOperator:
      return absl::StrCat(host, "was asked to leave by ", Describe(left.by));
    case NodeLeft::Why::kPreemptFile:
      return host + "was asked to leave by --preempt_file";
    case NodeLeft::Why::kNothingToTrain:
      return host + "has nothing to train";
    case NodeLeft::Why::kFailedAtStart:
      return Describe(left.failure.value_or(WorkerFailure())) + " during start-up";
    case NodeLeft::Why::kJobEnded:
      return "the job has ended";
    case NodeLeft::Why::kStartedAgain:
      return "its agent was started again under the same id";
  }
  return kUnknown;
}

std::string Describe(const NodesSeparated& apart) {
  std::vector<std::string> pairs;
  for (const NodePair& pair : apart.pairs) pairs.push_back(absl::StrCat(pair.one, " and ", pair.other));
  if (apart.more > 0) pairs.push_back(absl::StrCat(apart.more, " more pairs"));
  const std::string what =
      absl::StrCat("the workers of ", absl::StrJoin(pairs, ", of "),
                   " do not reach each other, though both reach the service (a firewall or a cut link "
                   "between them?)");
  return apart.without.empty()
             ? what
             : absl::StrCat(what, "; the job continues without ", absl::StrJoin(apart.without, ", "));
}

std::string Describe(const Cause& cause) {
  const std::string& name = cause.name;
  return std::visit(
      Overloaded{
          [](const std::monostate&) { return std::string(kUnknown); },
          [](const WorkerDied& e) {
            return absl::StrCat(DescribeWithLog(e.failure), "; ",
                                e.counted_before ? "counted by an earlier service, " : "",
                                RestartText(e.restart_count, e.refunded, e.max_restarts), EqualText(e));
          },
          [&](const WorkerStuck& e) {
            return absl::StrCat("rank ", e.rank, " on ", name, " cannot go on with the others: ", e.why);
          },
          [&](const NodeUnfit& e) { return UnfitText(name, e.failure); },
          [&](const NodeLost& e) { return LostText(name, e); },
          [&](const NodeLeft& e) { return absl::StrCat(name, " leaves: ", Describe(e)); },
          [&](const NodeJoined&) { return name + " joins"; },
          [&](const NodeGrown& e) {
            return absl::StrCat(name, " has ", e.ready, " workers ready, up from ", e.members);
          },
          [&](const NodeStopped&) { return name + " no longer runs it"; },
          [&](const NewerGeneration& e) { return NewerText(name, e); },
          [](const GenerationOver& e) {
            return absl::StrCat("the job has left generation ", e.generation.number);
          },
          [&](const NodeEvicted& e) {
            return Describe(ControlCall{EvictCall{name, e.age}, e.by});
          },
          [](const NodesSeparated& e) { return Describe(e); },
          [](const SettingsDiffer& e) {
            return absl::StrCat("settings differ from those the job \"", e.job_id,
                                "\" began with: ", absl::StrJoin(e.keys, "; "), "; give every node the same");
          },
          [](const RunReplaced& e) {
            return absl::StrCat(
                "another run of the job \"", e.job_id,
                "\" has begun, and the outcome of this node's run is not known here; start the "
                "node again to join the new run");
          },
          [](const NotServed& e) { return e.detail; },
      },
      cause.kind);
}

}  // namespace mtrun::rendezvous

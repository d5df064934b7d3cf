#include "launcher/core/regroup_line.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/signal_name.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::launcher {
namespace {

using rendezvous::NodeLeft;
using rendezvous::NodeLost;

/// Returns at most 48 bytes of the text.
std::string Cut(const std::string& text) {
  return text.size() <= 48 ? text : absl::StrCat(text.substr(0, 45), "...");
}

std::string HowLost(const NodeLost& lost) {
  switch (lost.how) {
    case NodeLost::How::kStreamEnded:
    case NodeLost::How::kConnectionBroke:
      return "connection lost";
    case NodeLost::How::kAgentGone:
      return "killed";
    case NodeLost::How::kNotBack:
      return "did not come back";
    case NodeLost::How::kSilent:
      return absl::StrCat("silent for ", HumanDuration(lost.time));
    case NodeLost::How::kEvicted:
      return "evicted";
    default:
      return Cut(lost.detail);
  }
}

std::string HowLeft(const NodeLeft& left) {
  switch (left.why) {
    case NodeLeft::Why::kSignal:
      return left.signal == SIGINT ? "Ctrl-C" : SignalName(left.signal);
    case NodeLeft::Why::kOperator:
      return absl::StrCat("asked by ", Brief(left.by));
    case NodeLeft::Why::kPreemptFile:
      return "asked by --preempt_file";
    default:
      return Cut(rendezvous::Describe(left));
  }
}

}  // namespace

std::string InAFewWords(const rendezvous::Cause& cause) {
  return std::visit(
      rendezvous::Overloaded{
          [](const rendezvous::WorkerDied& e) { return Cut(Brief(e.failure)); },
          [](const rendezvous::NodeUnfit& e) { return Cut(Brief(e.failure)); },
          [&](const NodeLost& e) { return absl::StrCat(cause.name, " lost (", HowLost(e), ")"); },
          [&](const NodeLeft& e) { return absl::StrCat(cause.name, " left (", HowLeft(e), ")"); },
          [&](const rendezvous::NodeEvicted& e) {
            return absl::StrCat(cause.name, " was evicted ", HumanDuration(e.age), " ago by ", Brief(e.by));
          },
          [&](const auto&) { return Cut(rendezvous::Describe(cause)); },
      },
      cause.kind);
}

void RegroupLine::Ended(const rendezvous::Cause& cause, int workers, TimePoint now) {
  if (reason_.empty() || entered_) before_ = workers;  // otherwise no generation has run since the last end
  if (reason_.empty() || entered_) ended_ = now;
  reason_ = InAFewWords(cause);
  entered_ = false;
}

void RegroupLine::Entered(int workers) {
  after_ = workers;
  entered_ = true;
}

std::optional<std::string> RegroupLine::OnSteps(int64_t steps, TimePoint now) {
  if (reason_.empty() || !entered_) return std::nullopt;
  const std::string before = before_ == after_ ? "" : absl::StrCat(before_, " -> ");
  return absl::StrCat(std::exchange(reason_, ""), ": ", before, after_, after_ == 1 ? " worker" : " workers",
                      ", step ", steps, " continues after ", HumanDuration(now - ended_));
}

}  // namespace mtrun::launcher

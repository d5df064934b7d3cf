#include "launcher/core/agent_events.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/signal_name.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::launcher {
namespace {

using rendezvous::Overloaded;

std::string DescribeExit(const WorkerExited& exited) {
  const std::string how =
      exited.signal != 0 ? SignalName(exited.signal) : absl::StrCat("code ", exited.exit_code);
  return absl::StrCat("worker ", exited.local_rank, " exited: ", how,
                      exited.message.empty() ? "" : " " + exited.message);
}

std::string DescribeOffer(const SendOffer& send) {
  std::string text =
      absl::StrCat("send offer: ", send.offer.workers, " workers", send.fresh ? ", fresh port" : "");
  if (send.offer.leaves) text += ", leaves";
  if (send.offer.holds) absl::StrAppend(&text, ", holds ", rendezvous::Describe(*send.offer.holds));
  return text;
}

}  // namespace

std::string Describe(const Event& event) {
  return std::visit(Overloaded{
                        [](const rendezvous::ServiceEvent& e) {
                          return absl::StrCat("service: ", rendezvous::Describe(e));
                        },
                        [](const SessionConnected&) { return std::string("connected"); },
                        [](const SessionDisconnected& e) { return absl::StrCat("disconnected: ", e.why); },
                        [](const LeaseRenewed&) { return std::string("lease renewed"); },
                        [](const SessionFailed& e) { return absl::StrCat("session failed: ", e.why); },
                        [](const WorkerExited& e) { return DescribeExit(e); },
                        [](const WorkerGone& e) { return absl::StrCat("worker ", e.local_rank, " gone"); },
                        [](const WorkerSaid& e) {
                          return absl::StrCat("worker ", e.local_rank, " said ",
                                              absl::StripSuffix(channel::Encode(e.message), "\n"));
                        },
                        [](const SignalReceived& e) { return absl::StrCat("signal ", SignalName(e.signal)); },
                        [](const PreemptFileAppeared&) { return std::string("preempt file appeared"); },
                        [](const Tick&) { return std::string("tick"); },
                    },
                    event);
}

std::string Describe(const Effect& effect) {
  return std::visit(
      Overloaded{
          [](const SendOffer& e) { return DescribeOffer(e); },
          [](const SendToService& e) { return absl::StrCat("send: ", rendezvous::Describe(e.event)); },
          [](const StartWorkers& e) {
            const bool all =
                e.local_ranks.size() == static_cast<size_t>(e.assignment.members[e.member].workers);
            const std::string who =
                all ? "start workers" : "start worker " + absl::StrJoin(e.local_ranks, ", ");
            if (e.warm_up)
              return absl::StrCat(who, " to warm up for ", rendezvous::Describe(e.assignment.generation));
            return absl::StrCat(who, " as node ", e.member, " of ",
                                rendezvous::Describe(e.assignment.generation));
          },
          [](const SignalWorkers& e) { return absl::StrCat("signal workers: ", SignalName(e.signal)); },
          [](const SignalWorker& e) {
            return absl::StrCat("signal worker ", e.local_rank, ": ", SignalName(e.signal));
          },
          [](const SendToWorker& e) {
            return absl::StrCat("tell worker ", e.local_rank, ": ",
                                absl::StripSuffix(channel::Encode(e.message), "\n"));
          },
          [](const InspectWorker& e) { return absl::StrCat("inspect worker ", e.local_rank, ": ", e.text); },
          [](const ShowNote& e) { return absl::StrCat("show \"", e.text, "\""); },
          [](const ReadLog& e) {
            return absl::StrCat("read the log of rank ", e.request.rank, ", local rank ", e.local_rank);
          },
          [](const CleanUp& e) { return std::string(e.leave ? "clean up, leave the rest" : "clean up"); },
          [](const WriteLog& e) {
            static constexpr const char* kLetters[] = {"D", "I", "W", "E"};
            return absl::StrCat("log ", kLetters[static_cast<int>(e.level)], ": ", e.text);
          },
          [](const Exit& e) {
            return absl::StrCat("exit ", e.code, e.outcome ? ": " + WhyEnded(*e.outcome) : "");
          },
      },
      effect);
}

std::string Describe(const Effects& effects) {
  return absl::StrJoin(
      effects, "\n", [](std::string* out, const Effect& effect) { absl::StrAppend(out, Describe(effect)); });
}

}  // namespace mtrun::launcher

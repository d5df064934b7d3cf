#include "rendezvous/wire/types.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/endpoint.h"
#include "rendezvous/wire/overloaded.h"

namespace mtrun::rendezvous {
namespace {

std::string DescribeRanks(const Member& member) {
  if (member.workers == 1) return absl::StrCat("rank ", member.first_rank);
  return absl::StrCat("ranks ", member.first_rank, "-", member.first_rank + member.workers - 1);
}

std::string DescribeOffer(const Offer& offer) {
  std::string text = absl::StrCat("offer: ", Counted(offer.workers, "worker"), " on ", offer.host);
  if (offer.node_rank) absl::StrAppend(&text, ", node_rank ", *offer.node_rank);
  if (offer.leaves) text += ", leaves";
  if (offer.holds) absl::StrAppend(&text, ", holds ", Describe(*offer.holds));
  return text;
}

std::string KeyList(const std::vector<std::string>& keys) {
  std::vector<std::string> shown;
  for (const std::string& key : keys) shown.push_back(absl::CHexEscape(key));
  return absl::StrJoin(shown, ",");
}

}  // namespace

void AppendServices(const Assignment& generation, std::vector<std::string>* endpoints) {
  for (const Member& member : generation.members) {
    if (member.service_port > 0) endpoints->push_back(ToText(Endpoint{member.address, member.service_port}));
  }
}

std::string Describe(const Generation& generation) { return absl::StrCat("generation ", generation.number); }

std::string Describe(const Assignment& a) {
  constexpr size_t kMaxShown = 16;  // in one line for people
  const size_t shown = a.members.size() <= kMaxShown ? a.members.size() : kMaxShown - 1;
  std::vector<std::string> members;
  for (size_t i = 0; i < shown; ++i)
    members.push_back(absl::StrCat(a.members[i].host, " (", DescribeRanks(a.members[i]), ")"));
  if (shown < a.members.size()) members.push_back(absl::StrCat(a.members.size() - shown, " more"));
  std::string text = absl::StrCat(
      Describe(a.generation), ": ", Counted(static_cast<int64_t>(a.members.size()), "node"), ", world size ",
      a.world_size, ": ", absl::StrJoin(members, ", "), "; master ", a.master_address, ":", a.master_port);
  if (a.restart_count > 0) absl::StrAppend(&text, "; restart ", a.restart_count);
  return text;
}

std::string Describe(const JobOutcome& outcome) {
  return absl::StrCat(outcome.success ? "success"
                                      : absl::StrCat(outcome.stopped ? "stopped" : "failed", ", exit code ",
                                                     outcome.exit_code),
                      ": ", WhyEnded(outcome));
}

JobOutcome FailedOutcome(std::string reason, int exit_code) {
  return JobOutcome{false, exit_code, std::move(reason), std::nullopt};
}

int ExitCodeOf(const WorkerFailure& failure) {
  if (failure.signal != 0) return 128 + failure.signal;
  return failure.exit_code != 0 ? failure.exit_code : 1;
}

std::string Describe(const GenerationDissolved& dissolved) {
  return absl::StrCat(Describe(dissolved.generation), " ended: ", Describe(dissolved.cause));
}

std::string WhyRefused(const Refused& refused) {
  const bool unfit = std::holds_alternative<NodeUnfit>(refused.cause.kind);
  return Describe(refused.cause) + (unfit ? "; start it as the others are started" : "");
}

std::string WhyEnded(const JobOutcome& outcome) {
  if (!outcome.root_cause) return outcome.reason;
  return absl::StrCat(DescribeWithLog(*outcome.root_cause), "; ", outcome.reason);
}

std::string Describe(const AgentEvent& event) {
  return std::visit(
      Overloaded{
          [](const OfferSent& e) { return DescribeOffer(e.offer); },
          [](const WorkerFailed& e) {
            return absl::StrCat("worker failed in ", Describe(e.generation), ": ", Describe(e.failure));
          },
          [](const WorkersFinished& e) {
            return absl::StrCat("workers finished in ", Describe(e.generation), e.final ? " (final)" : "");
          },
          [](const Leaving& e) {
            return absl::StrCat(e.stopping ? "leaving when its workers are gone: " : "leaving: ",
                                Describe(e.why));
          },
          [](const StoreSet& e) {
            return absl::StrCat("store set ", absl::CHexEscape(e.key), " (", e.value.size(), " bytes) in ",
                                Describe(e.generation));
          },
          [](const StoreRead& e) {
            return absl::StrCat("store ", e.wait ? "wait " : "get ", KeyList(e.keys), " (id ", e.id, ") in ",
                                Describe(e.generation));
          },
          [](const CollectivesBroken& e) {
            return absl::StrCat("collectives broken in ", Describe(e.generation), " at rank ", e.rank,
                                e.unconnected ? ", never connected: " : ": ", e.why);
          },
          [](const LogPart& e) {
            return absl::StrCat("log ", e.id, ": ", e.out.size() + e.err.size(), " bytes");
          },
          [](const NodeUse& e) {
            return absl::StrCat("use ", e.asked, " of ", Counted(e.workers.size(), "worker"));
          },
          [](const PeerUnreached& e) {
            return absl::StrCat("rank ", e.rank, " does not reach rank ", e.peer, " in ",
                                Describe(e.generation));
          },
          [](const StepsCommitted& e) {
            return absl::StrCat(e.step, " steps committed in ", Describe(e.generation));
          },
      },
      event);
}

std::string Describe(const ServiceEvent& event) {
  return std::visit(
      Overloaded{
          [](const Assigned& e) { return absl::StrCat("assigned ", Describe(e.assignment())); },
          [](const GenerationDissolved& e) { return Describe(e); },
          [](const JobEnded& e) { return absl::StrCat("job ended: ", Describe(e.outcome)); },
          [](const Refused& e) { return absl::StrCat("refused: ", WhyRefused(e)); },
          [](const Waiting& e) { return absl::StrCat("waiting: ", e.text); },
          [](const Redirect& e) { return absl::StrCat("the job is at ", e.endpoint, ": ", e.reason); },
          [](const BudgetChanged& e) {
            return absl::StrCat("of ", e.restart_count, " failures ", e.refunded, " are given back");
          },
          [](const Membership& e) {
            return absl::StrCat("of others: ", Describe(e.generation.assignment()));
          },
          [](const LogRequest& e) { return absl::StrCat("wants log ", e.id, " of rank ", e.rank); },
          [](const UseAsked& e) { return absl::StrCat("wants use ", e.id); },
          [](const ControlCall& e) { return absl::StrCat(Describe(e), e.leaves() ? "; leave" : ""); },
          [](const StoreReply& e) {
            std::vector<std::string> keys;
            for (const auto& [key, value] : e.values) keys.push_back(key);
            return absl::StrCat("store reply ", e.id, ": ", KeyList(keys),
                                e.error.empty() ? "" : "error: ", e.error);
          },
      },
      event);
}

}  // namespace mtrun::rendezvous

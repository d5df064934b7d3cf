#include "launcher/core/host_eviction.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "rendezvous/job/job_choice.h"

namespace mtrun::launcher {
namespace {

using rendezvous::Assignment;
using rendezvous::Member;
using rendezvous::NodeName;
using rendezvous::ServiceHost;

std::vector<NodeName> NamesOf(const Assignment& last) {
  std::vector<NodeName> names;
  for (const Member& member : last.members) names.push_back({member.node_id, member.host});
  return names;
}

}  // namespace

const Member* FindHost(const Assignment& last, const ServiceHost& host) {
  const auto found = std::find_if(last.members.begin(), last.members.end(), [&](const Member& member) {
    return host.presence.id != 0 && member.presence_id == host.presence.id;
  });
  return found == last.members.end() ? nullptr : &*found;
}

absl::StatusOr<rendezvous::Eviction> ChooseHost(const Assignment& last, const ServiceHost& host,
                                                const std::string& job_id, const std::string& name) {
  if (!host.embedded) {
    return absl::FailedPreconditionError(
        absl::StrCat("the service of ", rendezvous::QuotedJob(job_id),
                     " lives in no mtrun, and nobody takes its place: start it again at the job's endpoint"));
  }
  const std::vector<NodeName> names = NamesOf(last);
  const std::string where =
      absl::StrCat("generation ", last.generation.number, " of ", rendezvous::QuotedJob(job_id));
  MT_ASSIGN_OR_RETURN(const NodeName chosen, rendezvous::ChooseNode(names, name, "member", where));
  const Member* member = FindHost(last, host);
  if (member == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the rendezvous is hosted by no member of ", where, ": start mtrun there again"));
  }
  if (member->node_id != chosen.node_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " does not host the rendezvous of ", rendezvous::QuotedJob(job_id), ": ",
                     member->host, " does, and is silent; evict that one first, or wait for it"));
  }
  return rendezvous::Eviction{job_id, chosen.node_id, rendezvous::ShortName(names, chosen), last.generation};
}

std::vector<std::string> ServicesWithout(const Assignment& last, const ServiceHost& host) {
  Assignment others = last;
  if (const Member* member = FindHost(last, host))
    std::erase_if(others.members, [&](const Member& other) { return other.node_id == member->node_id; });
  std::vector<std::string> services;
  rendezvous::AppendServices(others, &services);
  return services;
}

std::string DescribeSilentHost(const Assignment& last, const ServiceHost& host) {
  const std::string holds =
      "the mtrun that hosts the rendezvous is silent, and may live: the others hold until it answers";
  const Member* member = FindHost(last, host);
  const std::vector<std::string> services = ServicesWithout(last, host);
  if (member == nullptr || services.empty()) return holds;
  return absl::StrCat(holds, "; if its node never comes back: mtrun --evict ",
                      rendezvous::ShortName(NamesOf(last), {member->node_id, member->host}), " ",
                      absl::StrJoin(services, ","));
}

}  // namespace mtrun::launcher

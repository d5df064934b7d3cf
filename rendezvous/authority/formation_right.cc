#include "rendezvous/authority/formation_right.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtrun::rendezvous {

std::string Describe(const FormationRight& right, const MembershipView& view) {
  using Ground = FormationRight::Ground;
  const bool known = view.generation.known();
  const uint64_t last = view.generation.id().number;
  const std::string hosts = absl::StrJoin(right.hosts, ", ");
  switch (right.ground) {
    case Ground::kOnlyService:
    case Ground::kFirstService:
    case Ground::kMembers:
      return "";
    case Ground::kKnowsNoJob:
      return "this is a standby service: it takes a job over from a dead host, and knows of none";
    case Ground::kNotProbed:
      return "probing the other services of the list";
    case Ground::kPreceded:
      return absl::StrCat("the job begins at ", right.endpoint, ", the first of the list");
    case Ground::kJobElsewhere:
      return absl::StrCat("the job is at ", right.endpoint);
    case Ground::kServiceSilent:
      return absl::StrCat(known ? absl::StrCat("no node of generation ", last, " is left, and ") : "",
                          "the service at ", right.endpoint,
                          " does not answer and may have the job; waiting for it (--rdzv_conf takeover=any "
                          "continues without)");
    case Ground::kContinuesElsewhere:
      return absl::StrCat("no node of generation ", last, " is left: the job continues at ", right.endpoint);
    case Ground::kSpareMayHaveContinued:
      return absl::StrCat("no node of generation ", last, " is left: waiting for the spare node at ",
                          right.endpoint, ", which may have continued it");
    case Ground::kMembersMissing: {
      std::vector<std::string> missing;
      for (const Member* member : view.Absent()) missing.push_back(member->host);
      return absl::StrCat("holding: of generation ", last, " ", absl::StrJoin(missing, ", "),
                          missing.size() == 1 ? " is" : " are",
                          " not here and may still run elsewhere (--rdzv_conf takeover=any continues "
                          "without); ",
                          Departures::kAdvice);
    }
    case Ground::kHostMayHaveContinued:
      return absl::StrCat("holding: the nodes of generation ", last,
                          " had lost their host before it was found dead, and it may have gone on with "
                          "others; waiting for a service at ",
                          right.endpoint, ": start mtrun there again; ", Departures::kAdvice);
    case Ground::kMembersLeftOut:
      return absl::StrCat("waiting for ", hosts, " to be ready: without ",
                          right.hosts.size() == 1 ? "it" : "them", " too few nodes of generation ", last,
                          " would be in the next one, and another service could form one too");
    case Ground::kPredecessorMayBeFollowed:
      return absl::StrCat("holding: of generation ", right.number, " ", hosts,
                          " may not know of its successor, and another service could form one too; ",
                          Departures::kAdvice);
  }
  return "";
}

}  // namespace mtrun::rendezvous

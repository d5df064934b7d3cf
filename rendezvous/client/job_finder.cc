#include "rendezvous/client/job_finder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/client/service_trail.h"

namespace mtrun::rendezvous {
namespace {

enum Rank { kNoJob, kEnded, kSeesTooFew, kHasIt };

Rank RankOf(const ServiceStatus& status) {
  Rank rank = kNoJob;
  for (const JobView& job : status.jobs)
    rank = std::max(rank, job.phase == "ended" ? kEnded : job.authority ? kHasIt : kSeesTooFew);
  return rank;
}

}  // namespace

std::vector<std::string> JobFinder::InOrder() const {
  std::vector<std::string> order = endpoints_;
  if (where_.empty()) return order;
  std::erase(order, where_);
  order.insert(order.begin(), where_);
  return order;
}

absl::StatusOr<ServiceStatus> JobFinder::Find() {
  absl::StatusOr<ServiceStatus> best = absl::UnavailableError("no service is named");
  std::vector<absl::Status> silent;
  std::string best_at;
  ServiceTrail trail(InOrder());
  std::map<std::string, std::string> elsewhere;
  for (std::string endpoint = trail.Next(); !endpoint.empty(); endpoint = trail.Next()) {
    absl::StatusOr<ServiceStatus> status = ask_(endpoint);
    if (!status.ok()) {
      silent.push_back(status.status());
      continue;
    }
    for (const auto& [job_id, place] : status->elsewhere) {
      elsewhere[job_id] = place;
      if (RankOf(*status) < kSeesTooFew) trail.Follow(endpoint, place);
    }
    if (best.ok() && RankOf(*best) >= RankOf(*status)) continue;
    best = std::move(status);
    best_at = endpoint;
    if (RankOf(*best) == kHasIt) break;
  }
  if (!best.ok()) return silent.empty() ? best : AllErrors(silent);
  if (RankOf(*best) == kNoJob && !where_.empty() && best_at != where_) {
    return absl::UnavailableError(absl::StrCat(
        "the service at ", where_, " had the job and does not answer, and ", best_at, " does not have it"));
  }
  if (RankOf(*best) != kNoJob) where_ = best_at;
  for (const JobView& job : best->jobs) elsewhere.erase(job.settings.job_id);
  best->elsewhere = std::move(elsewhere);
  return best;
}

absl::Status AllErrors(const std::vector<absl::Status>& errors) {
  std::vector<absl::string_view> texts;
  for (const absl::Status& error : errors) {
    if (std::find(texts.begin(), texts.end(), error.message()) == texts.end())
      texts.push_back(error.message());
  }
  return errors.empty() ? absl::OkStatus() : absl::Status(errors.front().code(), absl::StrJoin(texts, "; "));
}

absl::Status LostJobError(const std::string& silence, const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("no service of the job has answered for ", silence,
                   ", and the job was not seen to end; it may continue where another "
                   "node hosts it: ",
                   why.message()));
}

}  // namespace mtrun::rendezvous

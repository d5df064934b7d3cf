#include "rendezvous/job_finder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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
  std::stable_partition(order.begin(), order.end(),
                        [this](const std::string& endpoint) { return endpoint == where_; });
  return order;
}

absl::StatusOr<ServiceStatus> JobFinder::Find() {
  absl::StatusOr<ServiceStatus> best = absl::UnavailableError("no service is named");
  std::vector<absl::Status> silent;
  std::string best_at;
  for (const std::string& endpoint : InOrder()) {
    absl::StatusOr<ServiceStatus> status = ask_(endpoint);
    if (!status.ok()) {
      silent.push_back(status.status());
      continue;
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

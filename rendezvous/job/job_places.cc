#include "rendezvous/job/job_places.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/value_or.h"
#include "rendezvous/job/job_choice.h"

namespace mtrun::rendezvous {

void JobPlaces::OnNamed(const std::string& job_id, const std::string& endpoint, bool authority,
                        TimePoint now) {
  std::erase_if(places_, [&](const auto& place) { return now - place.second.named >= kFresh; });
  const auto known = places_.find(job_id);
  if (known == places_.end() && places_.size() >= kMaxPlaces) return;
  const bool weaker =
      known != places_.end() && known->second.authority && !authority && known->second.endpoint != endpoint;
  if (!weaker) places_[job_id] = {endpoint, authority, now};
}

std::map<std::string, std::string> JobPlaces::All(TimePoint now) const {
  std::map<std::string, std::string> all;
  for (const auto& [job_id, place] : places_) {
    if (now - place.named < kFresh) all[job_id] = place.endpoint;
  }
  return all;
}

std::string JobPlaces::Of(const std::string& job_id, TimePoint now) const {
  const std::map<std::string, std::string> all = All(now);
  if (job_id.empty()) return all.size() == 1 ? all.begin()->second : "";
  return ValueOr(all, job_id);
}

std::string JobPlaces::Explain(const absl::Status& missing, const std::string& job_id, TimePoint now) const {
  std::string text(missing.message());
  std::vector<std::string> places;
  for (const auto& [id, endpoint] : All(now)) {
    if (job_id.empty() || id == job_id) places.push_back(absl::StrCat(QuotedJob(id), " is at ", endpoint));
  }
  return places.empty() ? text : absl::StrCat(text, "; ", FewJoined(std::move(places)));
}

}  // namespace mtrun::rendezvous

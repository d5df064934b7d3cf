#include "trainers/run/arrival/data_news.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace mtrun::trainers {
namespace {

// A shorter wait is not worth a line.
constexpr Duration kWorthSaying = std::chrono::seconds(2);
constexpr Duration kSayAgain = std::chrono::minutes(1);

/// Returns a problem's kind, which ignores numbers (a shard's, an attempt's, milliseconds).
std::string KindOf(std::string trouble) {
  trouble.erase(std::remove_if(trouble.begin(), trouble.end(), absl::ascii_isdigit), trouble.end());
  return trouble;
}

}  // namespace

absl::Status DataNews::operator()(const datasets::SetClient::Wait& wait) {
  const std::string line = Line(wait, MonotonicNow());
  if (line.empty()) return absl::OkStatus();
  if (wait.trouble.empty()) {
    log::Info(line);
  } else {
    log::Warning(line);
  }
  return absl::OkStatus();
}

std::string DataNews::Line(const datasets::SetClient::Wait& wait, TimePoint now) {
  const bool troubled = !wait.trouble.empty();
  const bool due = troubled ? IsNew(wait.trouble, now)
                            : wait.waited > kWorthSaying && (!told_ || wait.waited - said_ >= kSayAgain);
  if (!due) return "";
  told_ = true;
  said_ = wait.waited;
  if (troubled) return absl::StrCat("the run is waiting for its data, nothing is lost: ", wait.trouble);
  return absl::StrCat("waiting for data from ", url_, ": ", wait.files, " of ", wait.of, " shards fetched");
}

bool DataNews::IsNew(const std::string& trouble, TimePoint now) {
  for (auto told = troubles_.begin(); told != troubles_.end();) {
    told = now - told->second >= kSayAgain ? troubles_.erase(told) : std::next(told);
  }
  return troubles_.emplace(KindOf(trouble), now).second;
}

void DataNews::Over(Duration waited) {
  if (told_) log::Info("the data from ", url_, " arrived after ", HumanDuration(waited));
  told_ = false;
  said_ = {};
}

}  // namespace mtrun::trainers

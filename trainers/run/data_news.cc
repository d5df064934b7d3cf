#include "trainers/run/data_news.h"

#include "base/log.h"

namespace mtrun::trainers {
namespace {

// A wait that is over sooner is not worth a line.
constexpr Duration kWorthSaying = std::chrono::seconds(2);
constexpr Duration kSayAgain = std::chrono::minutes(1);

}  // namespace

absl::Status DataNews::operator()(const datasets::SetClient::Wait& wait) {
  const TimePoint now = MonotonicNow();
  const bool troubled = !wait.trouble.empty();
  const bool due = troubled ? !troubled_at_ || now - *troubled_at_ >= kSayAgain
                            : wait.waited > kWorthSaying && (!told_ || wait.waited - said_ >= kSayAgain);
  if (!due) return absl::OkStatus();
  if (troubled) {
    log::Warning("the run waits for its data, nothing is lost: ", wait.trouble);
    troubled_at_ = now;
  } else {
    log::Info("waiting for data from ", url_, ": ", wait.files, " of ", wait.of, " shards here");
  }
  told_ = true;
  said_ = wait.waited;
  return absl::OkStatus();
}

void DataNews::Over(Duration waited) {
  if (told_) log::Info("the data of ", url_, " is here after ", HumanDuration(waited));
  told_ = false;
  said_ = {};
}

}  // namespace mtrun::trainers

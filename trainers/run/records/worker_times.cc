#include "trainers/run/records/worker_times.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace mtrun::trainers {

void WorkerTimes::Restart(std::vector<int64_t> work, TimePoint now) {
  *this = {};
  work_ = std::move(work);
  sums_.resize(work_.size());
  since_ = now;
}

void WorkerTimes::Add(const std::vector<StepTimes>& times) {
  // The first step of a generation has no earlier one to report.
  if (times.size() != sums_.size() || times.empty() || times.front().total() == 0) return;
  for (size_t rank = 0; rank < times.size(); ++rank) sums_[rank] += times[rank];
  ++steps_;
}

std::optional<WorkersRecord> WorkerTimes::Take(int64_t steps, TimePoint now) {
  if (now - since_ < kEvery || steps_ == 0) return std::nullopt;
  Judge(now);
  WorkersRecord record{.steps = steps, .times = sums_, .straggler = {}};
  for (StepTimes& times : record.times) {
    times.compute /= static_cast<double>(steps_);
    times.wait /= static_cast<double>(steps_);
    times.data /= static_cast<double>(steps_);
  }
  if (straggler_) record.straggler = straggler_->rank;
  std::fill(sums_.begin(), sums_.end(), StepTimes{});
  steps_ = 0;
  since_ = now;
  return record;
}

std::optional<WorkerTimes::Straggler> WorkerTimes::Slowest() const {
  std::vector<std::pair<double, int>> paces;  // seconds per micro-batch
  for (size_t rank = 0; rank < sums_.size(); ++rank) {
    if (work_[rank] > 0)
      paces.emplace_back(sums_[rank].busy() / static_cast<double>(work_[rank]), static_cast<int>(rank));
  }
  if (paces.size() < 2) return std::nullopt;
  std::sort(paces.begin(), paces.end());
  const double median = paces[(paces.size() - 1) / 2].first;
  if (median <= 0 || paces.back().first < kSlow * median) return std::nullopt;
  return Straggler{.rank = paces.back().second, .ratio = paces.back().first / median};
}

/// Runs every 10 s, before the sums are reset.
void WorkerTimes::Judge(TimePoint now) {
  const std::optional<Straggler> slowest = Slowest();
  const std::optional<int> suspect = slowest ? std::optional(slowest->rank) : std::nullopt;
  if (suspect != suspect_) suspected_ = since_;
  suspect_ = suspect;
  straggler_ = slowest && now - suspected_ >= kFor ? slowest : std::nullopt;
}

std::string Describe(const WorkerTimes::Straggler& straggler, const WorkersRecord& record,
                     const std::string& host) {
  const StepTimes& times = record.times[straggler.rank];
  return absl::StrFormat(
      "rank %d%s is slow: %.2f times the median of the workers for a minute (compute %.1f ms, data %.1f ms "
      "per step)",
      straggler.rank, host.empty() ? "" : " on " + host, straggler.ratio, 1e3 * times.compute,
      1e3 * times.data);
}

}  // namespace mtrun::trainers

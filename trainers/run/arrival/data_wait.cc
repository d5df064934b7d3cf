#include "trainers/run/arrival/data_wait.h"

#include <utility>

#include "base/status_macros.h"
#include "trainers/collectives/device_group.h"

namespace mtrun::trainers {
namespace {

// Waits within the run are recorded once they add up to this.
constexpr Duration kWorthALine = std::chrono::seconds(1);

}  // namespace

absl::Status DataWait::Enter(int64_t steps) {
  if (unrecorded_ > Duration::zero()) MT_RETURN_IF_ERROR(Record(steps));
  const Assignment& who = membership_.assignment();
  return arrival_ != nullptr ? arrival_->Follow(steps, who.rank, who.world_size) : absl::OkStatus();
}

absl::StatusOr<Duration> DataWait::AwaitStep(int64_t step) {
  if (arrival_ == nullptr) return Duration::zero();
  const Assignment& who = membership_.assignment();
  MT_RETURN_IF_ERROR(arrival_->AwaitStep(step, who.rank, who.world_size, [this] { return Look(); }));
  return Count(step);
}

absl::Status DataWait::AwaitImages(const datasets::PackedSplit& split, int64_t images, int64_t steps) {
  if (arrival_ == nullptr) return absl::OkStatus();
  MT_RETURN_IF_ERROR(arrival_->AwaitImages(split, images, [this] { return Look(); }));
  return Count(steps).status();
}

/// Ends the wait if the group has broken, or if this worker is to leave.
absl::Status DataWait::Look() const {
  still_here_();
  MT_RETURN_IF_ERROR(collectives::GroupStatus(membership_.group()));
  if (membership_.generation_is_over()) return absl::UnavailableError("this generation is over");
  return membership_.wants_drain() ? EndForLeaving(membership_, membership_.drain_wish()) : absl::OkStatus();
}

absl::StatusOr<Duration> DataWait::Count(int64_t steps) {
  const Duration waited = arrival_->TakeWaited();
  unrecorded_ += waited;
  if (unrecorded_ >= kWorthALine) MT_RETURN_IF_ERROR(Record(steps));
  return waited;
}

absl::Status DataWait::Record(int64_t steps) {
  const Duration seconds = std::exchange(unrecorded_, Duration::zero());
  return files_.Record(DataWaitRecord{.steps = steps, .seconds = ToSeconds(seconds)});
}

}  // namespace mtrun::trainers

#include "trainers/program/remote_data.h"

#include "base/file_limit.h"
#include "base/status_macros.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/cache/set_request.h"

namespace mtrun::trainers {
namespace {

using datasets::SetClient;

constexpr size_t kOtherFiles = 256;  // other files that a worker has open

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteData>> RemoteData::Open(const TrainOptions& options,
                                                             const EnvironmentMap& environment, int workers,
                                                             std::function<void()> still_here) {
  MT_ASSIGN_OR_RETURN(datasets::SetRequest request,
                      datasets::MakeSetRequest(options.data, options.remote, environment));
  const DataNeeds needs{.cache_bytes = request.open.cache_bytes,
                        .fetch_ahead_gib = options.remote.fetch_ahead_gib,
                        .arrives = TrainsWhileDataComes(options),
                        .plan = options.plan,
                        .window = options.shuffle_window,
                        .workers = workers,
                        .eval_images = options.eval_images};
  std::unique_ptr<RemoteData> data(new RemoteData(options.data, std::move(request), std::move(still_here)));
  MT_RETURN_IF_ERROR(data->OpenIndex(needs));
  return data;
}

SetClient::Watch RemoteData::Watch() {
  return [this](const SetClient::Wait& wait) {
    still_here_();
    return news_(wait);
  };
}

absl::Status RemoteData::OpenIndex(const DataNeeds& needs) {
  const TimePoint began = MonotonicNow();
  MT_RETURN_IF_ERROR(client_.Open(Watch()));
  MT_ASSIGN_OR_RETURN(bounds_, BoundsOf(url_, client_.index(), needs));
  RaiseFileLimit();
  MT_RETURN_IF_ERROR(datasets::CheckFileLimit(url_, datasets::ShardsOf(client_.index()).size(), kOtherFiles));
  waited_ = MonotonicNow() - began;
  return absl::OkStatus();
}

absl::Status RemoteData::AwaitAll() {
  const TimePoint began = MonotonicNow();
  std::vector<std::string> files;
  for (const auto& [file, entry] : datasets::ShardsOf(client_.index())) files.push_back(file);
  MT_RETURN_IF_ERROR(client_.Await(files, Watch()));
  waited_ += MonotonicNow() - began;
  news_.Over(waited_);
  return absl::OkStatus();
}

DataArrival& RemoteData::Begin(const std::vector<datasets::PackedSplit*>& splits,
                               const TrainOptions& options) {
  const DataArrival::Order order{options.seed, options.plan, options.shuffle_window, options.shuffle};
  return arrival_.emplace(client_, url_, splits, order, bounds_);
}

bool TrainsWhileDataComes(const TrainOptions& options) {
  const bool all_at_once = options.validation_share > 0 || options.preview > 0;
  return IsStreamed(options.shuffle) && !all_at_once;
}

}  // namespace mtrun::trainers

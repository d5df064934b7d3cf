#include "trainers/program/remote_data.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/cache/set_request.h"

namespace mtrun::trainers {
namespace {

using datasets::SetClient;

// A wait that is over sooner is not worth a line.
constexpr Duration kWorthSaying = std::chrono::seconds(2);
constexpr Duration kSayAgain = std::chrono::minutes(1);
constexpr size_t kOtherFiles = 256;  // that a worker has open besides

/// Each shard that is held is an open file.
absl::Status CheckFileLimit(const std::string& url, size_t shards) {
  if (FileLimit() >= shards + kOtherFiles) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(url, " has ", shards, " shards, and a process here may have ", FileLimit(),
                   " files open: raise the hard limit (ulimit -Hn), or import with a larger --shard_mib"));
}

/// Says what is waited for: troubles at once and each once, the rest when it takes its time.
class Teller {
 public:
  explicit Teller(std::string url) : url_(std::move(url)) {}

  absl::Status operator()(const SetClient::Wait& wait) {
    const bool news = wait.trouble != trouble_;
    trouble_ = wait.trouble;
    const Duration since = wait.waited - said_;
    if (news && !trouble_.empty())
      return Say(wait, absl::StrCat("the run waits for its data, nothing is lost: ", trouble_));
    if (news || (!told_ && wait.waited > kWorthSaying) || (told_ && since > kSayAgain)) {
      if (wait.waited < kWorthSaying) return absl::OkStatus();
      return Say(wait, absl::StrCat("waiting for data from ", url_, ": ", wait.files, " of ", wait.of,
                                    " shards here"));
    }
    return absl::OkStatus();
  }

  void Over(Duration waited) const {
    if (told_) log::Info("the data of ", url_, " is here after ", HumanDuration(waited));
  }

 private:
  absl::Status Say(const SetClient::Wait& wait, const std::string& text) {
    trouble_.empty() ? log::Info(text) : log::Warning(text);
    told_ = true;
    said_ = wait.waited;
    return absl::OkStatus();
  }

  const std::string url_;
  std::string trouble_;
  bool told_ = false;
  Duration said_{};
};

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteData>> RemoteData::Fetch(const TrainOptions& options,
                                                              const EnvironmentMap& environment) {
  MT_ASSIGN_OR_RETURN(datasets::SetRequest request,
                      datasets::MakeSetRequest(options.data, options.remote, environment));
  const int64_t cache_bytes = request.open.cache_bytes;
  std::unique_ptr<RemoteData> data(new RemoteData(std::move(request)));
  MT_RETURN_IF_ERROR(data->Wait(options.data, cache_bytes));
  return data;
}

absl::Status RemoteData::Wait(const std::string& url, int64_t cache_bytes) {
  const TimePoint began = MonotonicNow();
  Teller teller(url);
  const SetClient::Watch watch = [&](const SetClient::Wait& wait) { return teller(wait); };
  MT_RETURN_IF_ERROR(client_.Open(watch));
  MT_RETURN_IF_ERROR(datasets::CheckFits(url, client_.index().bytes(), cache_bytes));
  std::vector<std::string> files;
  RaiseFileLimit();
  MT_RETURN_IF_ERROR(CheckFileLimit(url, datasets::ShardsOf(client_.index()).size()));
  for (const auto& [file, entry] : datasets::ShardsOf(client_.index())) files.push_back(file);
  MT_RETURN_IF_ERROR(client_.Await(files, watch));
  waited_ = MonotonicNow() - began;
  teller.Over(waited_);
  return absl::OkStatus();
}

}  // namespace mtrun::trainers

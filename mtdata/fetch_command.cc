#include "mtdata/fetch_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/own_launch.h"
#include "base/posix.h"
#include "base/settings.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/cache/set_client.h"
#include "datasets/cache/set_request.h"
#include "datasets/files/progress.h"
#include "datasets/remote/fetcher.h"
#include "mtdata/stop_signal.h"

namespace mtrun::mtdata {
namespace {

using datasets::SetClient;

constexpr off_t kLargestLog = 1 << 20;
constexpr size_t kOtherFiles = 16;  // open files besides the shards
constexpr Duration kSayEvery = std::chrono::seconds(1);

std::vector<SettingSpec> FetchSpecs() {
  using Kind = SettingSpec::Kind;
  const std::string group = "Flags";
  SettingSpec connections{.name = "connections",
                          .kind = Kind::kInt,
                          .default_text = "4",
                          .help = "With --node: number of concurrent transfers.",
                          .group = group};
  connections.min = 1;
  connections.max = 64;
  SettingSpec bound{
      .name = "cache_gib",
      .kind = Kind::kDouble,
      .default_text = "0",
      .help =
          "Size limit of the cache; the least recently used data is evicted. 0: as much as the disk holds.",
      .group = group,
      .value = "GIB"};
  bound.min = 0;
  bound.max = 1e9;  // its bytes still fit in 64 bits
  return {{.name = "cache",
           .help = "Folder of the cache, shared by all programs of this machine.",
           .group = group,
           .value = "FOLDER",
           .otherwise = "~/.cache/mtrun/data"},
          bound,
          {.name = "data_bearer_file",
           .help = "File with the bearer token for a third-party server.",
           .group = group,
           .value = "FILE"},
          {.name = "data_redirects",
           .kind = Kind::kBool,
           .default_text = "false",
           .help = "Follow redirects to other hosts, without sending them any token.",
           .group = group},
          {.name = "node",
           .kind = Kind::kBool,
           .default_text = "false",
           .help = "Run this machine's fetcher for the cache folder given instead of URL; programs start it "
                   "themselves.",
           .group = group},
          connections};
}

/// Runs the fetcher in the background; the parent exits when clients can reach the child, or it failed.
int RunNode(const std::string& cache, int connections) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0)
    return datasets::Complain(datasets::kFailure, ErrnoStatus(errno, "create a pipe"));
  const pid_t child = fork();
  if (child < 0) return datasets::Complain(datasets::kFailure, ErrnoStatus(errno, "fork"));
  if (child > 0) {
    close(ready[1]);
    char byte = 0;
    return read(ready[0], &byte, 1) == 1 ? 0 : datasets::kFailure;
  }
  setsid();
  signal(SIGPIPE, SIG_IGN);
  struct stat log {};
  if (fstat(STDERR_FILENO, &log) == 0 && S_ISREG(log.st_mode) && log.st_size > kLargestLog)
    static_cast<void>(ftruncate(STDERR_FILENO, 0));
  const absl::Status status =
      datasets::RunFetcher({.cache = cache, .connections = static_cast<size_t>(connections)}, [&] {
        const char byte = 1;
        static_cast<void>(write(ready[1], &byte, 1));
      });
  if (!status.ok()) log::Error(status.message());
  return status.ok() ? 0 : datasets::kFailure;
}

/// Prints a line at each change, and once a second during a download.
class Progress {
 public:
  absl::Status operator()(const SetClient::Wait& wait) {
    MT_RETURN_IF_ERROR(CheckNotStopped());
    if (wait.trouble != trouble_) {
      trouble_ = wait.trouble;
      if (!trouble_.empty()) log::Warning("waiting: ", trouble_);
    }
    const TimePoint now = MonotonicNow();
    if (wait.of == 0 || wait.files == files_ || now - said_ < kSayEvery) return absl::OkStatus();
    files_ = wait.files;
    said_ = now;
    log::Info(datasets::WithCommas(wait.files), " of ", datasets::WithCommas(wait.of), " shards");
    return absl::OkStatus();
  }

 private:
  std::string trouble_;
  int64_t files_ = 0;
  TimePoint said_{};
};

absl::Status FetchAll(const std::string& url, const datasets::RemoteOptions& options) {
  MT_ASSIGN_OR_RETURN(const datasets::SetRequest request,
                      datasets::MakeSetRequest(url, options, OwnLaunch(CurrentEnvironment())));
  SetClient client(request);
  Progress progress;
  const SetClient::Watch watch = [&](const SetClient::Wait& wait) { return progress(wait); };
  MT_RETURN_IF_ERROR(client.Open(watch));
  MT_RETURN_IF_ERROR(datasets::CheckFits(url, client.index().bytes(), request.open.cache_bytes));
  std::vector<std::string> files;
  for (const auto& [file, entry] : datasets::ShardsOf(client.index())) files.push_back(file);
  MT_RETURN_IF_ERROR(datasets::CheckFileLimit(url, files.size(), kOtherFiles));
  MT_RETURN_IF_ERROR(client.Await(files, watch));
  MT_RETURN_IF_ERROR(PrintOut(client.folder() + "\n"));
  log::Info(datasets::WithCommas(client.index().images()), " images, ",
            absl::StrFormat("%.1f MiB", static_cast<double>(client.index().bytes()) / (1 << 20)),
            ", the SHA-256 of every shard is correct; give the folder above to any command or trainer");
  return absl::OkStatus();
}

int RunFetch(const std::vector<std::string>& args) {
  Settings settings("mtdata fetch", FetchSpecs());
  const auto words = settings.ParseWords(args);
  if (!words.ok()) return datasets::Complain(datasets::kUsage, words.status());
  if (words->size() != 1)
    return datasets::Complain(
        datasets::kUsage,
        absl::InvalidArgumentError("give one URL, as in `mtdata fetch https://host:8443/photos`"));
  RaiseFileLimit();
  if (settings.Bool("node")) return RunNode(words->front(), static_cast<int>(settings.Int("connections")));
  StopAtSignals();
  const absl::Status fetched = FetchAll(words->front(), {.cache = settings.Text("cache"),
                                                         .cache_gib = settings.Double("cache_gib"),
                                                         .bearer_file = settings.Text("data_bearer_file"),
                                                         .redirects = settings.Bool("data_redirects")});
  return fetched.ok() ? 0 : ComplainOfDownload(fetched);
}

}  // namespace

datasets::Command FetchCommand() {
  return {.name = "fetch",
          .help = {.purpose = "Fetches a data set from a server into the cache of this machine.",
                   .usage = {"mtdata fetch URL [flags]"},
                   .examples = {{"from mtdata serve; prints the folder, for any command or trainer",
                                 "mtdata fetch https://HOST:8443/photos"},
                                {"into a cache of at most 200 GiB on a large disk",
                                 "mtdata fetch https://HOST:8443/photos --cache cache --cache_gib 200"}}},
          .specs = FetchSpecs,
          .run = RunFetch};
}

}  // namespace mtrun::mtdata

// mtdata fetch: copies a set into this machine's cache; with --node it is the node's shared fetcher.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
#include "mtdata/commands.h"
#include "mtdata/stop_signal.h"

namespace mtrun::mtdata {
namespace {

using datasets::SetClient;

constexpr off_t kLargestLog = 1 << 20;
constexpr size_t kOtherFiles = 16;  // open files besides the shards
constexpr Duration kSayEvery = std::chrono::seconds(1);

std::vector<SettingSpec> FetchSpecs() {
  return {
      {.name = "cache",
       .help = "Folder of the cache, shared by all programs of this machine.",
       .value = "FOLDER",
       .otherwise = "~/.cache/mtrun/data"},
      {.name = "cache_gib",
       .kind = SettingSpec::Kind::kDouble,
       .default_text = "0",
       .help =
           "Size limit of the cache; the least recently used data is evicted. 0: as much as the disk holds.",
       .value = "GIB",
       .min = 0,
       .max = 1e9},  // its bytes still fit in 64 bits
      TextSpec("data_bearer_file", "FILE", "File with the bearer token for a third-party server."),
      SwitchSpec("data_redirects", "false",
                 "Follow redirects to other hosts, without sending them any token."),
      SwitchSpec("node", "false",
                 "Run this machine's fetcher for the cache folder given instead of URL; programs start it "
                 "themselves."),
      NumberSpec("connections", 4, 1, 64, "With --node: number of concurrent transfers.")};
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

int RunFetch(const Settings& settings, const std::vector<std::string>& words) {
  RaiseFileLimit();
  if (settings.Bool("node")) return RunNode(words[0], static_cast<int>(settings.Int("connections")));
  StopAtSignals();
  const absl::Status fetched = FetchAll(words[0], {.cache = settings.Text("cache"),
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
          .words = {"URL"},
          .run = RunFetch,
          .give = "give one URL, as in `mtdata fetch https://host:8443/photos`"};
}

}  // namespace mtrun::mtdata

#include "mtdata/fetch_command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file_limit.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/settings.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "datasets/cache/cache_layout.h"
#include "datasets/cache/set_client.h"
#include "datasets/cache/set_request.h"
#include "datasets/progress.h"
#include "datasets/remote/fetcher.h"

namespace mtrun::mtdata {
namespace {

using datasets::SetClient;

constexpr off_t kLargestLog = 1 << 20;
constexpr size_t kOtherFiles = 16;  // that are open besides the shards
constexpr Duration kSayEvery = std::chrono::seconds(1);

std::atomic<int> stop_signal = 0;
extern "C" void OnStop(int number) { stop_signal = number; }

std::vector<SettingSpec> FetchSpecs() {
  using Kind = SettingSpec::Kind;
  const std::string group = "flags of fetch";
  SettingSpec connections{.name = "connections",
                          .kind = Kind::kInt,
                          .default_text = "4",
                          .help = "With --node: transfers at a time.",
                          .group = group};
  connections.min = 1;
  connections.max = 64;
  SettingSpec bound{
      .name = "cache_gib",
      .kind = Kind::kDouble,
      .default_text = "0",
      .help = "What the whole cache may hold in GiB, 0: as much as the disk; the longest unused goes.",
      .group = group};
  bound.min = 0;
  bound.max = 1e9;  // in bytes it still is a number of 64 bits
  return {
      {.name = "cache", .help = "Folder of the cache (default: ~/.cache/mtrun/data).", .group = group},
      bound,
      {.name = "data_bearer_file",
       .help = "File with the token that a server of others wants to be shown.",
       .group = group},
      {.name = "data_redirects",
       .kind = Kind::kBool,
       .default_text = "false",
       .help = "Follow redirects to other hosts, without showing them any token.",
       .group = group},
      {.name = "node",
       .kind = Kind::kBool,
       .default_text = "false",
       .help = "Be the fetcher of this machine for the cache in the folder given instead of a URL; programs "
               "start it by themselves.",
       .group = group},
      connections};
}

/// In the background: the parent ends when clients find the child, or it has failed.
int RunNode(const std::string& cache, int connections) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0)
    return datasets::Complain(datasets::kFailure, ErrnoStatus(errno, "make a pipe"));
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

/// A line when something changes, and one a second while files come.
class Progress {
 public:
  absl::Status operator()(const SetClient::Wait& wait) {
    if (stop_signal != 0) return absl::CancelledError("stopped; what has come is kept");
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
                      datasets::MakeSetRequest(url, options, CurrentEnvironment()));
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
            ", every shard with its SHA-256; any command and trainer takes the folder above");
  return absl::OkStatus();
}

int RunFetch(const std::vector<std::string>& args) {
  Settings settings("mtdata fetch", FetchSpecs());
  const auto words = datasets::WordsOf(settings, args);
  if (!words.ok()) return datasets::Complain(datasets::kUsage, words.status());
  if (words->size() != 1)
    return datasets::Complain(
        datasets::kUsage,
        absl::InvalidArgumentError("give one URL, as in `mtdata fetch https://host:8443/photos`"));
  RaiseFileLimit();
  if (settings.Bool("node")) return RunNode(words->front(), static_cast<int>(settings.Int("connections")));
  struct sigaction action {};
  action.sa_handler = OnStop;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  const absl::Status fetched = FetchAll(words->front(), {.cache = settings.Text("cache"),
                                                         .cache_gib = settings.Double("cache_gib"),
                                                         .bearer_file = settings.Text("data_bearer_file"),
                                                         .redirects = settings.Bool("data_redirects")});
  if (fetched.ok()) return 0;
  return datasets::Complain(stop_signal != 0                   ? 128 + stop_signal
                            : absl::IsInvalidArgument(fetched) ? datasets::kUsage
                                                               : datasets::kFailure,
                            fetched);
}

}  // namespace

datasets::Command FetchCommand() {
  return {
      .name = "fetch",
      .usage =
          "       mtdata fetch URL [flags]            bring a set from a server into this machine's cache\n",
      .flags = [] { return Settings("mtdata", FetchSpecs()).Help(); },
      .run = RunFetch};
}

}  // namespace mtrun::mtdata

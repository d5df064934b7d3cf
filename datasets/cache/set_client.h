// One process's access to a remote set: this machine's fetcher brings the files into the cache; the client
// waits for them and holds them. It starts a fetcher if none is running. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/json_lines.h"
#include "base/posix.h"
#include "datasets/cache/fetch_messages.h"
#include "datasets/packed/index.h"

namespace mtrun::datasets {

struct SetRequest {
  std::string cache;  // path of a folder
  fetch::Open open;
  /// The command that fetches: mtdata beside this program or in PATH. The cache's folder is appended.
  std::vector<std::string> fetcher;
};

class SetClient {
 public:
  /// The state of a wait.
  struct Wait {
    Duration waited = {};
    std::string trouble = "";   // a problem that the fetcher cannot solve itself now, "" if none
    int64_t files = 0, of = 0;  // number of files in the cache, and needed
  };
  /// Called several times a second during a wait; an error ends the wait and is returned.
  using Watch = std::function<absl::Status(const Wait&)>;

  explicit SetClient(SetRequest request);
  ~SetClient();

  /// Blocks until the index is in the cache. kFailedPrecondition: the set cannot be fetched.
  absl::Status Open(const Watch& watch);
  /// REQUIRES: Open was OK, here and below.
  const Index& index() const { return *index_; }
  /// The folder for PackedSplit::Open.
  const std::string& folder() const { return folder_; }
  /// Sets the files that are needed next, in this order. They are fetched before Await asks for them.
  absl::Status Want(std::vector<std::string> files);
  /// Blocks until these files are in the cache and holds them while this object exists. They are fetched
  /// before all others, and even if one of the others cannot be fetched.
  absl::Status Await(const std::vector<std::string>& files, const Watch& watch);
  /// Returns the wanted files that have arrived since and holds them from now on. Never blocks; Await reports
  /// what keeps the others from arriving.
  std::vector<std::string> Collect();
  /// Returns those of these files that have been written to since they were held. Await fetches another copy.
  /// The damaged one is kept for its mappings, and returned again, until ForgetDamaged.
  std::vector<std::string> Damaged(const std::set<std::string>& files);
  void ForgetDamaged(const std::vector<std::string>& files);
  /// Releases files: they may be evicted.
  void Release(const std::vector<std::string>& files);

 private:
  absl::Status Connect();
  void StartFetcher();
  absl::Status SendWants();
  absl::Status Send(const fetch::Message& message);
  absl::Status Hear(Duration timeout);
  absl::Status OnMessage(const fetch::Message& message);
  absl::Status Adopt(const std::string& digest);
  void NameUnreachable(const absl::Status& why);
  bool HoldAll(const std::vector<std::string>& files);
  bool TakeLost(const std::vector<std::string>& files);
  absl::Status WaitUntil(const std::function<bool()>& done, const std::vector<std::string>& files,
                         const Watch& watch);

  const SetRequest request_;
  UniqueFd socket_;
  std::optional<LineBuffer> lines_;
  TimePoint started_{};        // when the last fetcher was started
  bool cannot_start_ = false;  // since there was a fetcher; trouble_ says why
  bool unreached_ = false;     // one reported that it runs, and has not been reached since
  std::string trouble_;
  std::string cannot_hold_;  // why the last shard could not be held
  std::optional<Index> index_;
  std::string folder_;
  std::map<std::string, ShardEntry> entries_;
  std::vector<std::string> wanted_;
  std::set<std::string> here_;  // files reported as fetched, not checked yet
  bool collects_ = true;        // false: something is wrong that the next Await will report
  std::map<std::string, UniqueFd> held_, damaged_;
};

}  // namespace mtrun::datasets

// A set that lies elsewhere, as one process of this machine reads it: the fetcher of the machine brings its
// files into the cache, this waits for them and holds them. Whoever finds no fetcher starts one. Not
// thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/json_lines.h"
#include "base/posix.h"
#include "datasets/cache/fetch_messages.h"
#include "datasets/index.h"

namespace mtrun::datasets {

struct SetRequest {
  std::string cache;  // folder
  fetch::Open open;
  /// The program that fetches, found beside this one or in PATH; given the cache's folder.
  std::vector<std::string> fetcher;
};

class SetClient {
 public:
  /// How things are while something is waited for.
  struct Wait {
    Duration waited = {};
    std::string trouble = "";   // what the fetcher cannot mend itself now, "" while all is well
    int64_t files = 0, of = 0;  // there, and needed
  };
  /// Called several times a second while something is waited for; an error ends the wait with it.
  using Watch = std::function<absl::Status(const Wait&)>;

  explicit SetClient(SetRequest request);
  ~SetClient();

  /// Waits until the index is there. kFailedPrecondition: the set cannot be had, the message says why.
  absl::Status Open(const Watch& watch);
  /// REQUIRES: Open was OK, here and below.
  const Index& index() const { return *index_; }
  /// What PackedSplit::Open takes.
  const std::string& folder() const { return folder_; }
  /// What is needed next, in this order, from now on: fetched ahead of the wait for it.
  absl::Status Want(std::vector<std::string> files);
  /// Waits until these files are there and holds them for as long as this object lives. They are fetched
  /// before all others; where one of the others cannot be had, alone.
  absl::Status Await(const std::vector<std::string>& files, const Watch& watch);
  /// Of the files that were wanted those that have come since and are held from now on. Waits for nothing:
  /// what keeps the others is for Await to say.
  std::vector<std::string> Collect();
  /// Of these files those that have been written to since they were held. Another copy of them is to be
  /// waited for; the damaged one stays as it is, for who has it mapped, until ForgetDamaged. They are named
  /// again until then.
  std::vector<std::string> Damaged(const std::set<std::string>& files);
  void ForgetDamaged(const std::vector<std::string>& files);
  /// Gives files back: they may be evicted.
  void Release(const std::vector<std::string>& files);

 private:
  absl::Status Connect();
  void StartFetcher();
  absl::Status SendWants();
  absl::Status Send(const fetch::Message& message);
  absl::Status Hear(Duration patience);
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
  TimePoint started_{};        // the last fetcher
  bool cannot_start_ = false;  // since there was a fetcher; the trouble is why
  bool unreached_ = false;     // one was said to be there, and has not been reached since
  std::string trouble_;
  std::string cannot_hold_;  // why, of the last shard that could not be held
  std::optional<Index> index_;
  std::string folder_;
  std::map<std::string, ShardEntry> entries_;
  std::vector<std::string> wanted_;
  std::set<std::string> here_;  // files that were said to be there, not looked at yet
  bool collects_ = true;        // false: something is wrong that the next Await will say
  std::map<std::string, UniqueFd> held_, damaged_;
};

}  // namespace mtrun::datasets

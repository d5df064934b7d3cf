// A harness that turns a distributed test into a lambda. Ranks run as processes (forked before this process
// has any thread) or as threads, if a race or leak detector must see all of them.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/posix.h"
#include "trainers/collectives/bootstrap.h"
#include "trainers/collectives/group.h"

namespace mtrun::collectives {

/// A bootstrap that uses files in a folder shared by all ranks and waits with inotify. Thread-safe.
class FolderBootstrap : public Bootstrap {
 public:
  explicit FolderBootstrap(std::string folder);
  absl::Status Set(std::string_view key, std::string_view value) override;
  absl::StatusOr<std::map<std::string, std::string>> Wait(const std::vector<std::string>& keys) override;
  void Abort(std::string_view why) override;

 private:
  const std::string folder_;
  Failure aborted_;
};

/// The arguments of one rank's lambda.
struct RankContext {
  int rank = 0;
  int world = 1;
  std::string folder;  // FolderBootstrap's
  int tell_fd = -1;    // processes only

  /// Sends a line to the parent's Ranks::Hear.
  void Tell(const std::string& text) const;
  /// Connects a group of all ranks; `hosts[r]` is the host that rank r believes to be on ({}: all on one).
  absl::StatusOr<std::unique_ptr<Group>> Connect(const std::string& generation,
                                                 const std::vector<int>& hosts = {},
                                                 size_t slot_bytes = 1 << 20) const;
};
/// The host that each rank believes to be on, for tests with several hosts.
struct Layout {
  std::string name;
  std::vector<int> hosts;
};
inline void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

using RankBody = std::function<void(const RankContext&)>;

/// Connects as RankContext::Connect does, for tests that change the ranks themselves.
absl::StatusOr<std::unique_ptr<Group>> ConnectAs(const std::string& folder, int rank, int world,
                                                 const std::string& generation,
                                                 const std::vector<int>& hosts = {},
                                                 size_t slot_bytes = 1 << 20);

/// Ranks as processes. The destructor kills those that are still running.
class Ranks {
 public:
  Ranks(int world, const RankBody& body);
  ~Ranks();

  int pid(int rank) const { return children_[static_cast<size_t>(rank)].pid; }
  void Signal(int rank, int signal) const;
  /// Returns the next line that `rank` told, or "" if it ended or sent nothing for a minute.
  std::string Hear(int rank);
  /// Waits for the end of `rank`. Returns its exit status, -signal, or -1000 after a minute.
  int Join(int rank);
  /// Expects every rank to end with status 0, that is, with all assertions of its lambda passed.
  void ExpectAllWell();
  const std::string& folder() const { return folder_; }

 private:
  struct Child {
    int pid = -1;
    UniqueFd told;
    std::string inbox;
    bool joined = false;
  };
  std::string folder_;
  std::vector<Child> children_;
};

/// Runs `body` in `world` processes and expects all of them to exit with status 0.
void RunProcesses(int world, const RankBody& body);
/// Runs `body` on `world` threads of this process.
void RunThreads(int world, const RankBody& body);

/// Sums `count` ones over the group; the default is several blocks.
absl::Status ReduceOnes(Group& group, size_t count = 100000);

/// Returns MTRUN_SEED or a new seed, and prints it.
uint64_t TestSeed();

}  // namespace mtrun::collectives

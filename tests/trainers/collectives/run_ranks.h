// One harness that makes a distributed test a lambda: ranks as processes (forked before this process has any
// thread) or, where a race or leak detector must see all of them, as threads.
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

/// A bootstrap of files in a folder that all ranks share; waits on inotify. Thread-safe.
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

/// What one rank's lambda gets.
struct RankContext {
  int rank = 0;
  int world = 1;
  std::string folder;  // FolderBootstrap's
  int tell_fd = -1;    // processes only

  /// Sends a line to the parent's Ranks::Hear.
  void Tell(const std::string& text) const;
  /// A group of all ranks; `hosts[r]` names the host that rank r believes to be on ({} = all on one).
  absl::StatusOr<std::unique_ptr<Group>> Connect(const std::string& generation,
                                                 const std::vector<int>& hosts = {},
                                                 size_t slot_bytes = 1 << 20) const;
};
/// Which host each rank believes to be on, for tests over several.
struct Layout {
  std::string name;
  std::vector<int> hosts;
};
inline void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

using RankBody = std::function<void(const RankContext&)>;

/// The membership and options that RankContext::Connect uses, for tests that change the ranks themselves.
absl::StatusOr<std::unique_ptr<Group>> ConnectAs(const std::string& folder, int rank, int world,
                                                 const std::string& generation,
                                                 const std::vector<int>& hosts = {},
                                                 size_t slot_bytes = 1 << 20);

/// Ranks as processes. Kills what is left of them on destruction.
class Ranks {
 public:
  Ranks(int world, const RankBody& body);
  ~Ranks();

  int pid(int rank) const { return children_[static_cast<size_t>(rank)].pid; }
  void Signal(int rank, int signal) const;
  /// The next line that `rank` told, "" when it ended or said nothing for a minute.
  std::string Hear(int rank);
  /// Waits for the end of `rank`: its exit status, -signal, or -1000 when it did not end within a minute.
  int Join(int rank);
  /// Every rank must end with status 0: the assertions of its lambda held.
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

/// Runs `body` in `world` processes and expects all of them to end well.
void RunProcesses(int world, const RankBody& body);
/// Runs `body` on `world` threads of this process.
void RunThreads(int world, const RankBody& body);

/// Sums `count` ones over the group; by default several blocks of them.
absl::Status ReduceOnes(Group& group, size_t count = 100000);

/// MTRUN_SEED or a new one; printed.
uint64_t TestSeed();

}  // namespace mtrun::collectives

// Files that a service writes for one that starts afresh at its endpoint: the members of its jobs'
// generations, a small file each, and how the last run of each job ended. The fresh service then knows which
// members it must account for, and which runs are over. A membership is removed with its job, an end once a
// file is a day newer. A failed write loses only that; it is logged once and retried. Not thread-safe; files
// are written on a separate thread, so callers never wait for a disk.
#pragma once

#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "rendezvous/authority/remembered_job.h"
#include "rendezvous/authority/spares.h"
#include "rendezvous/wire/types.h"

namespace mtrun::rendezvous {

/// Returns the part of file names that services one after another at `endpoint` share. `endpoint`: that of
/// their jobs, or where they listen. If it names no machine ("[::]:29400", "localhost"), only its port counts
/// on each machine, and `host` is the name of this one; "" if no other one uses the folder.
std::string StateKey(const std::string& endpoint, const std::string& host);

class StateFolder {
 public:
  static constexpr Duration kPause = std::chrono::seconds(5);

  /// `folder`: "" keeps nothing. `endpoint`: see StateKey. `pause`: time before a failed write is retried.
  StateFolder(std::string folder, std::string endpoint, Duration pause = kPause);
  /// Waits until everything is written.
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;

  /// Returns the last generations of jobs that had not ended, by job id. Skips unreadable files with a
  /// warning.
  std::map<std::string, RememberedJob> Load();
  /// Records the running generation, its verified members and the nodes outside of it. Repeating it changes
  /// nothing and costs next to nothing: it is called at each event of the job.
  void Keep(const std::string& job_id, const Assignment& generation, const std::set<std::string>& verified,
            const Spares& spares = {});
  /// Returns how the last run of each job ended, the oldest first.
  std::vector<RememberedEnd> LoadEnds();
  /// Records how the run has ended. Repeating it changes nothing.
  void End(const RememberedEnd& end);
  /// Removes a job of which no node is left.
  void Forget(const std::string& job_id);

 private:
  /// New contents of a file, or its removal if empty. `replaces`: removed after the write; "": none.
  struct Change {
    std::string contents, replaces;
  };
  void Put(const std::string& path, Change change);
  void StartWriter();
  void Run();
  bool IsOutdated(const std::string& path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Write(const std::string& path, const Change& change);
  void Complain(const std::string& why);

  const std::string folder_, endpoint_;
  const Duration pause_;
  /// By job id: the generation, the number verified, the digest of the spares.
  std::map<std::string, std::tuple<Generation, size_t, uint64_t>> kept_;

  Mutex mu_;
  Condition changed_;
  // By path. Failed changes are due again at retry_at_.
  std::map<std::string, Change> due_ ABSL_GUARDED_BY(mu_), failed_ ABSL_GUARDED_BY(mu_);
  TimePoint retry_at_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool complained_ = false;  // used by the writing thread, if there is one
  bool lacks_thread_ = false;
  TimePoint start_again_;
  std::thread thread_;
};

/// Records that this run has ended, at any service: removes the membership that a service here wrote down, so
/// that the job's next run does not wait for its nodes, and keeps the end for nodes that come late. If no
/// membership was written down, nothing is; if the end cannot be written, the membership stays. `endpoint`:
/// see StateKey. Waits for the disk.
void NoteEnd(const std::string& folder, const std::string& endpoint, const RememberedEnd& end);

/// Returns $XDG_STATE_HOME/mtrun, else ~/.local/state/mtrun; "" if neither is known.
std::string StateFolderOf(const std::map<std::string, std::string>& environment);

}  // namespace mtrun::rendezvous

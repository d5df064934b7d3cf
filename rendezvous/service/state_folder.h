// What a service writes down for one that starts afresh at its endpoint: who is in the generations of its
// jobs, a small file each, and how the last run of each ended. The fresh one knows then whom it must account
// for, and whose run is over. The first goes with its job, the second after a day. Failing to write costs no
// more than that, is said once, and is tried again. Not thread-safe; files are written on a thread of its
// own, so that nobody waits for a disk.
#pragma once

#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "rendezvous/remembered_job.h"
#include "rendezvous/types.h"

namespace mtrun::rendezvous {

/// What tells the files of those services from others' in the folder that follow one another at `endpoint`,
/// which is that of their jobs or where they listen. Where it names no machine ("[::]:29400", "localhost")
/// every machine has one: `host` is this one's name, "" where no other one uses the folder.
std::string StateKey(const std::string& endpoint, const std::string& host);

class StateFolder {
 public:
  static constexpr Duration kPause = std::chrono::seconds(5);

  /// `folder` "": nothing is kept. `endpoint`: see StateKey. `pause`: before what failed is tried again.
  StateFolder(std::string folder, std::string endpoint, Duration pause = kPause);
  /// All that was to be written is.
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;

  /// The last generations of jobs that had not ended, by job id. What cannot be read is passed over, with a
  /// warning.
  std::map<std::string, RememberedJob> Load();
  /// This generation runs, and these of its members are verified; the same again changes nothing, and costs
  /// next to nothing: it is called at each event of the job.
  void Keep(const std::string& job_id, const Assignment& generation, const std::set<std::string>& verified);
  /// How the last run of each job ended: those of the last day, the oldest first.
  std::vector<RememberedEnd> LoadEnds();
  /// The run has ended so; again, it changes nothing.
  void End(const RememberedEnd& end);
  /// Nobody is left that knows of the job.
  void Forget(const std::string& job_id);

 private:
  /// Of a file; without contents: there is no file any more. `replaces` goes once it is written, "": none.
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
  std::map<std::string, std::pair<Generation, size_t>> kept_;  // by job id; how many are verified

  Mutex mu_;
  Condition changed_;
  // By path. What has failed is due again at retry_at_.
  std::map<std::string, Change> due_ ABSL_GUARDED_BY(mu_), failed_ ABSL_GUARDED_BY(mu_);
  TimePoint retry_at_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool complained_ = false;  // the thread's, where there is one
  bool lacks_thread_ = false;
  TimePoint start_again_;
  std::thread thread_;
};

/// This run has ended so, at whichever service: what a service here wrote down of it goes, so that the next
/// run of its id waits for none of its nodes, and how it ended stays, for those that come late. Where nothing
/// was written down nothing is, and where the end cannot be what was written down stays. `endpoint`: see
/// StateKey. Waits for the disk.
void NoteEnd(const std::string& folder, const std::string& endpoint, const RememberedEnd& end);

/// $XDG_STATE_HOME/mtrun, else ~/.local/state/mtrun; "" where neither is known.
std::string StateFolderOf(const std::map<std::string, std::string>& environment);

}  // namespace mtrun::rendezvous

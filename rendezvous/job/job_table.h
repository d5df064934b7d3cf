// All jobs of one service, by job id. It makes a state machine for the first node of a job, drops it with the
// last one, and remembers how jobs ended, so that a node that was away does not start a job of its own. An id
// can be used again at once: the next run under it has another incarnation, and nodes of the ended run that
// are still here continue with theirs. Pure, as JobMachine; not thread-safe.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/job/state_machine.h"

namespace mtrun::rendezvous {

class JobTable {
 public:
  static constexpr size_t kMaxJobs = 1024;
  static constexpr size_t kMaxRemembered = 64;
  using JobEffect = std::pair<std::string, Effect>;  // job id first

  using Remembered = std::map<std::string, RememberedJob>;  // by job id

  /// `own_job`: the job of the agent that this service lives in, "" for none.
  explicit JobTable(JobMachine::Options options, std::string own_job = "")
      : options_(std::move(options)), own_job_(std::move(own_job)) {}

  /// Takes what a service at this endpoint wrote down of its jobs before it died, and how runs ended there,
  /// oldest first. Call before the first step.
  void Remember(Remembered remembered, const std::vector<RememberedEnd>& ends = {});
  /// Only StreamOpened makes a job. Other events of an unknown job change nothing, but what another service
  /// says of it is kept.
  std::vector<JobEffect> Step(const std::string& job_id, const Event& event, TimePoint now);
  /// Takes the generation that the mtrun of this service is in at another one: a node that comes here next
  /// must not begin another run beside it, nor wait for the members of an older one. Returns false if that is
  /// known.
  bool AdoptMembership(const std::string& job_id, const Assignment& last);
  /// Steps every job whose deadline has come.
  std::vector<JobEffect> Tick(TimePoint now);
  std::optional<TimePoint> NextDeadline() const;
  /// The same for this job and earlier ones under its id; their steps change no other job's deadline.
  std::optional<TimePoint> NextDeadlineOf(const std::string& job_id) const;
  /// See JobMachine.
  Lease LeaseFor(const std::string& job_id, const std::string& node_id, Duration sent, TimePoint now) const;
  /// Ids of nodes that are not told yet how their job ended.
  std::vector<std::string> InEnded() const;
  /// Returns the running generation of the job, nullptr for none. Valid until the next step.
  const Assignment* RunningIn(const std::string& job_id) const;
  /// True if the node is in the job or in an earlier one under its id.
  bool Has(const std::string& job_id, const std::string& node_id) const;

  /// Without ended jobs whose ids are used again.
  const std::map<std::string, JobMachine>& jobs() const { return jobs_; }
  /// A job without an end whose nodes are gone for certain. One that was taken for gone too early may come
  /// back with an older generation, while ledgers know the newer ones.
  struct Forgotten {
    std::string job_id;
    uint64_t last_number = 0;
    uint64_t run = 0;    // its incarnation, if it cannot have continued elsewhere; 0: unknown
    bool moved = false;  // the job has moved to another service
  };
  const std::deque<Forgotten>& forgotten() const { return forgotten_; }
  /// Runs that are over, by job, including those with nodes that are not told yet.
  std::map<std::string, std::vector<EndedRun>> EndedRuns() const;
  /// Returns how the last run of the job ended that is over for all its nodes here.
  std::optional<RememberedEnd> LastEnd(const std::string& job_id) const;
  /// Returns the highest number given to a generation of the job while it was known here.
  uint64_t LastNumber(const std::string& job_id) const;

 private:
  void RememberEnd(RememberedEnd end);
  ProbeResult WithoutEnded(const std::string& job_id, ProbeResult looked) const;
  /// Notes that the job is not here any more and had `last_number` generations. `run`: see Forgotten.
  void Forget(const std::string& job_id, uint64_t last_number, uint64_t run = 0, bool moved = false);
  /// Remembers `last` for the next job under this id; false if a later one of the same run is remembered.
  bool RememberLast(const std::string& job_id, const Assignment& last);
  const Forgotten* FindForgotten(const std::string& job_id) const;
  /// Returns the run that the next nodes continue: no service has said that it is over. 0: a new one.
  uint64_t RunToContinue(const std::string& job_id) const;

  using Jobs = std::map<std::string, JobMachine>;
  using Past = std::list<std::pair<std::string, JobMachine>>;

  /// Returns true if nothing of the job is left but its end, which is remembered.
  bool StepOne(const std::string& job_id, JobMachine& job, const Event& event, TimePoint now,
               std::vector<JobEffect>& effects);
  /// Handles a node that has come to a job that has ended, or to none.
  void Admit(const std::string& job_id, const Event& event, const StreamOpened& opened, TimePoint now,
             std::vector<JobEffect>& effects);
  /// `incarnation`: the one that the node knows, 0 for none.
  Past::iterator FindPast(const std::string& job_id, const std::string& node_id, uint64_t incarnation);
  const RememberedEnd* FindEnded(const std::string& job_id, uint64_t incarnation) const;

  const JobMachine::Options options_;
  const std::string own_job_;
  Remembered remembered_;  // jobs that have not come yet
  Jobs jobs_;
  Past past_;  // ended jobs with nodes that have not gone yet
  std::deque<RememberedEnd> ended_;
  std::deque<Forgotten> forgotten_;
  uint64_t made_ = 0;  // number of jobs made; gives each its own seed
};

}  // namespace mtrun::rendezvous

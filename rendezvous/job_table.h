// All jobs of one service, by job id: makes a state machine for the first node of a job, drops it with the
// last one, and remembers how jobs ended so that a node that was away then does not start a job of its own.
// An id may be used again at once: what runs under it next is another incarnation, and nodes of the ended one
// that are still here go on with their own. Pure, as JobMachine; not thread-safe.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {

class JobTable {
 public:
  static constexpr size_t kMaxJobs = 1024;
  static constexpr size_t kMaxRemembered = 64;
  using JobEffect = std::pair<std::string, Effect>;  // job id first

  using Remembered = std::map<std::string, RememberedJob>;  // by job id

  /// `own_job`: of the agent that this service lives in, "" for none.
  explicit JobTable(JobMachine::Options options, std::string own_job = "")
      : options_(std::move(options)), own_job_(std::move(own_job)) {}

  /// Before the first step: what a service at this endpoint wrote down of its jobs before it died, and how
  /// runs ended there, the oldest first.
  void Remember(Remembered remembered, const std::vector<RememberedEnd>& ends = {});
  /// Only StreamOpened makes a job; other events of an unknown one change nothing, but what another service
  /// says of it is kept for the others.
  std::vector<JobEffect> Step(const std::string& job_id, const Event& event, TimePoint now);
  /// The mtrun that this service lives in has heard at another one that this is the job's last generation:
  /// who comes here next must not begin another run beside it. False where that is no news.
  bool Learn(const std::string& job_id, const Assignment& last);
  /// Steps every job whose deadline has come.
  std::vector<JobEffect> Tick(TimePoint now);
  std::optional<TimePoint> NextDeadline() const;
  /// The same of this job, also of earlier ones under its id: no step of it changes another one's.
  std::optional<TimePoint> NextDeadlineOf(const std::string& job_id) const;
  /// See JobMachine.
  Lease LeaseFor(const std::string& job_id, const std::string& node_id, Duration sent, TimePoint now) const;
  /// Ids of nodes that have not heard how their job ended.
  std::vector<std::string> InEnded() const;
  /// The generation of the job that runs, nullptr for none. Valid until the next step.
  const Assignment* RunningIn(const std::string& job_id) const;
  /// In the job or in an earlier one under its id.
  bool Has(const std::string& job_id, const std::string& node_id) const;

  /// Without those that have ended and whose ids are used again.
  const std::map<std::string, JobMachine>& jobs() const { return jobs_; }
  /// Without an end, their nodes gone for certain. One that was taken for gone before may come back with an
  /// older generation, and ledgers know the newer ones.
  struct Forgotten {
    std::string job_id;
    uint64_t last_number = 0;
    uint64_t run = 0;    // its incarnation, where it can have gone on nowhere else; 0: not known
    bool moved = false;  // to another service
  };
  const std::deque<Forgotten>& forgotten() const { return forgotten_; }
  /// Runs that are over, by job, also those with nodes that have yet to hear how.
  std::map<std::string, std::vector<EndedRun>> EndedRuns() const;
  /// How the last run of the job ended that is over for all its nodes here.
  std::optional<RememberedEnd> LastEnd(const std::string& job_id) const;
  /// The highest number that was given to a generation of the job while it was known here.
  uint64_t LastNumber(const std::string& job_id) const;

 private:
  struct Ended {
    std::string job_id;
    EndedRun run;
    JobOutcome outcome;
  };
  void RememberEnd(Ended ended);
  ProbeResult WithoutEnded(const std::string& job_id, ProbeResult looked) const;
  /// The job is not here, and has had so many generations. `run`: see Forgotten.
  void Forget(const std::string& job_id, uint64_t last_number, uint64_t run = 0, bool moved = false);
  /// For the next one of the job, unless a later generation of the same run is remembered; then false.
  bool RememberLast(const std::string& job_id, const Assignment& last);
  const Forgotten* FindForgotten(const std::string& job_id) const;
  /// The run that the next nodes of the job go on with: nobody has said that it is over. 0: a new one.
  uint64_t RunToContinue(const std::string& job_id) const;

  using Jobs = std::map<std::string, JobMachine>;
  using Past = std::list<std::pair<std::string, JobMachine>>;

  /// True when nothing of the job is left but how it ended, which is remembered.
  bool StepOne(const std::string& job_id, JobMachine& job, const Event& event, TimePoint now,
               std::vector<JobEffect>& effects);
  /// The node has come to a job that has ended, or to none.
  void Admit(const std::string& job_id, const Event& event, const StreamOpened& opened, TimePoint now,
             std::vector<JobEffect>& effects);
  /// `incarnation`: that the node knows, 0 for none.
  Past::iterator FindPast(const std::string& job_id, const std::string& node_id, uint64_t incarnation);
  const Ended* FindEnded(const std::string& job_id, uint64_t incarnation) const;

  const JobMachine::Options options_;
  const std::string own_job_;
  Remembered remembered_;  // of jobs that have not come yet
  Jobs jobs_;
  Past past_;  // ended, with nodes that have not gone yet
  std::deque<Ended> ended_;
  std::deque<Forgotten> forgotten_;
  uint64_t made_ = 0;  // jobs; gives each its own seed
};

}  // namespace mtrun::rendezvous

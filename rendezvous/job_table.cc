#include "rendezvous/job_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"

namespace mtrun::rendezvous {

std::vector<JobTable::JobEffect> JobTable::Step(const std::string& job_id, const Event& event,
                                                TimePoint now) {
  std::vector<JobEffect> effects;
  auto job = jobs_.find(job_id);
  if (const auto* opened = std::get_if<StreamOpened>(&event.what); opened != nullptr && job == jobs_.end()) {
    if (const Ended* ended = FindEnded(job_id, opened->seen)) {
      effects.emplace_back(job_id, Send{event.node_id, JobEnded{ended->outcome}});
      effects.emplace_back(job_id, CloseSession{event.node_id});
      return effects;
    }
    if (jobs_.size() >= kMaxJobs) {
      const std::string why = absl::StrCat("this service already serves ", kMaxJobs, " jobs");
      effects.emplace_back(job_id, Send{event.node_id, Refused{why}});
      effects.emplace_back(job_id, CloseSession{event.node_id});
      return effects;
    }
    JobMachine::Options options = options_;
    options.seed = SplitMix64(options_.seed + ++made_);
    options.host_begins = !own_job_.empty() && job_id == own_job_;
    job = jobs_.emplace(job_id, JobMachine(opened->settings, options)).first;
  }
  if (job != jobs_.end()) StepOne(job, event, now, effects);
  return effects;
}

std::vector<JobTable::JobEffect> JobTable::Tick(TimePoint now) {
  std::vector<JobEffect> effects;
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const auto current = job++;
    const auto due = current->second.NextDeadline();
    if (due && *due <= now) StepOne(current, Event{"", rendezvous::Tick{}}, now, effects);
  }
  return effects;
}

std::optional<TimePoint> JobTable::NextDeadline() const {
  std::optional<TimePoint> next;
  for (const auto& [job_id, job] : jobs_) next = Earlier(next, job.NextDeadline());
  return next;
}

void JobTable::StepOne(Jobs::iterator job, const Event& event, TimePoint now,
                       std::vector<JobEffect>& effects) {
  for (Effect& effect : job->second.Step(event, now)) effects.emplace_back(job->first, std::move(effect));
  if (!job->second.Gone()) return;
  if (const auto& outcome = job->second.outcome(); outcome && !job->second.issued().empty()) {
    ended_.push_back(Ended{job->first, job->second.issued(), *outcome});
    if (ended_.size() > kMaxRemembered) ended_.pop_front();
  }
  effects.emplace_back(job->first, LogLine{"its last node is gone; the job is forgotten", false});
  jobs_.erase(job);
}

Generation JobTable::RunBy(const std::string& job_id, const std::string& node_id) const {
  const auto job = jobs_.find(job_id);
  return job == jobs_.end() ? Generation{} : job->second.RunBy(node_id);
}

const JobTable::Ended* JobTable::FindEnded(const std::string& job_id, const Generation& seen) const {
  for (const Ended& ended : ended_) {
    const bool issued = std::find(ended.issued.begin(), ended.issued.end(), seen) != ended.issued.end();
    if (ended.job_id == job_id && issued) return &ended;
  }
  return nullptr;
}

}  // namespace mtrun::rendezvous

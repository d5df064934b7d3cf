#include "rendezvous/job_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"

namespace mtrun::rendezvous {

std::vector<JobTable::JobEffect> JobTable::Step(const std::string& job_id, const Event& event,
                                                TimePoint now) {
  std::vector<JobEffect> effects;
  const auto* opened = std::get_if<StreamOpened>(&event.what);
  const uint64_t incarnation = opened != nullptr ? opened->incarnation : 0;
  if (const auto past = FindPast(job_id, event.node_id, incarnation); past != past_.end()) {
    if (StepOne(job_id, past->second, event, now, effects)) past_.erase(past);
    return effects;
  }
  if (opened != nullptr) Admit(job_id, event, *opened, effects);
  const auto job = jobs_.find(job_id);
  if (!effects.empty() || job == jobs_.end()) return effects;  // turned away, or unknown
  if (StepOne(job_id, job->second, event, now, effects)) jobs_.erase(job);
  return effects;
}

void JobTable::Admit(const std::string& job_id, const Event& event, const StreamOpened& opened,
                     std::vector<JobEffect>& effects) {
  const auto turn_away = [&](ServiceEvent why) {
    effects.emplace_back(job_id, Send{event.node_id, std::move(why)});
    effects.emplace_back(job_id, CloseSession{event.node_id});
  };
  if (const Ended* ended = FindEnded(job_id, opened.incarnation)) return turn_away(JobEnded{ended->outcome});
  const auto job = jobs_.find(job_id);
  if (job != jobs_.end()) {
    const bool ended = job->second.outcome().has_value();
    if (!ended || job->second.Has(event.node_id) || job->second.incarnation() == opened.incarnation) return;
  }
  if (jobs_.size() + past_.size() >= kMaxJobs)
    return turn_away(Refused{absl::StrCat("this service already serves ", kMaxJobs, " jobs")});
  if (job != jobs_.end()) {
    past_.emplace_back(job_id, std::move(job->second));
    jobs_.erase(job);
  }
  JobMachine::Options options = options_;
  options.seed = SplitMix64(options_.seed + ++made_);
  options.host_begins = !own_job_.empty() && job_id == own_job_;
  jobs_.emplace(job_id, JobMachine(opened.settings, options));
}

std::vector<JobTable::JobEffect> JobTable::Tick(TimePoint now) {
  std::vector<JobEffect> effects;
  const auto tick = [&](auto& jobs) {
    for (auto job = jobs.begin(); job != jobs.end();) {
      const auto current = job++;
      auto& [job_id, machine] = *current;
      const auto due = machine.NextDeadline();
      if (!due || *due > now) continue;
      if (StepOne(job_id, machine, Event{"", rendezvous::Tick{}}, now, effects)) jobs.erase(current);
    }
  };
  tick(past_);
  tick(jobs_);
  return effects;
}

std::optional<TimePoint> JobTable::NextDeadline() const {
  std::optional<TimePoint> next;
  for (const auto& [job_id, job] : jobs_) next = Earlier(next, job.NextDeadline());
  for (const auto& [job_id, job] : past_) next = Earlier(next, job.NextDeadline());
  return next;
}

Generation JobTable::RunBy(const std::string& job_id, const std::string& node_id) const {
  const auto job = jobs_.find(job_id);
  return job == jobs_.end() ? Generation{} : job->second.RunBy(node_id);
}

bool JobTable::Has(const std::string& job_id, const std::string& node_id) const {
  const auto job = jobs_.find(job_id);
  return (job != jobs_.end() && job->second.Has(node_id)) ||
         std::any_of(past_.begin(), past_.end(),
                     [&](const auto& past) { return past.first == job_id && past.second.Has(node_id); });
}

bool JobTable::StepOne(const std::string& job_id, JobMachine& job, const Event& event, TimePoint now,
                       std::vector<JobEffect>& effects) {
  for (Effect& effect : job.Step(event, now)) effects.emplace_back(job_id, std::move(effect));
  if (!job.Gone()) return false;
  if (const auto& outcome = job.outcome()) {
    ended_.push_back(Ended{job_id, job.incarnation(), *outcome});
    if (ended_.size() > kMaxRemembered) ended_.pop_front();
  }
  effects.emplace_back(job_id, LogLine{"its last node is gone; the job is forgotten", false});
  return true;
}

JobTable::Past::iterator JobTable::FindPast(const std::string& job_id, const std::string& node_id,
                                            uint64_t incarnation) {
  return std::find_if(past_.begin(), past_.end(), [&](const auto& past) {
    const JobMachine& job = past.second;
    return past.first == job_id && (job.Has(node_id) || job.incarnation() == incarnation);
  });
}

const JobTable::Ended* JobTable::FindEnded(const std::string& job_id, uint64_t incarnation) const {
  const auto ended = std::find_if(ended_.begin(), ended_.end(), [&](const Ended& e) {
    return e.job_id == job_id && e.incarnation == incarnation;
  });
  return ended == ended_.end() ? nullptr : &*ended;
}

}  // namespace mtrun::rendezvous

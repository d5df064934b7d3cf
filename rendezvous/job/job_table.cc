#include "rendezvous/job/job_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"

namespace mtrun::rendezvous {
namespace {

/// REQUIRES: the job has ended.
EndedRun EndOf(const JobMachine& job) {
  return {job.incarnation(), job.last_number(), job.outcome()->success};
}

/// Returns the outcome of a run that has ended at another service, which alone knows the reason.
JobOutcome OutcomeOf(const EndedRun& run) {
  return {.success = run.success,
          .exit_code = run.success ? 0 : 1,
          .reason = run.success ? "its nodes finished, at another service" : "it failed, at another service",
          .root_cause = {}};
}

/// Returns whether no member here runs the job's last generation and `other` is a later one.
bool IsBehind(const JobMachine& job, const Assignment& other) {
  const std::optional<Assignment>& last = job.last_generation();
  return !job.IsKnownToRun() && (!last || last->generation.number < other.generation.number);
}

}  // namespace

void JobTable::Remember(Remembered remembered, const std::vector<RememberedEnd>& ends) {
  remembered_ = std::move(remembered);
  for (const RememberedEnd& end : ends) {
    RememberEnd(end);
    // The service died between the two writes: an ended run is not awaited any more.
    const auto known = remembered_.find(end.job_id);
    if (known != remembered_.end() && known->second.generation.incarnation == end.run.incarnation)
      remembered_.erase(known);
  }
}

std::vector<JobTable::JobEffect> JobTable::Step(const std::string& job_id, const Event& event,
                                                TimePoint now) {
  std::vector<JobEffect> effects;
  const auto* opened = std::get_if<StreamOpened>(&event.what);
  const uint64_t incarnation = opened != nullptr ? opened->incarnation : 0;
  if (const auto past = FindPast(job_id, event.node_id, incarnation); past != past_.end()) {
    if (StepOne(job_id, past->second, event, now, effects)) past_.erase(past);
    return effects;
  }
  if (opened != nullptr) Admit(job_id, event, *opened, now, effects);
  const auto job = jobs_.find(job_id);
  const auto* looked = std::get_if<ProbeResult>(&event.what);
  const bool heard = looked != nullptr && looked->heard && !looked->peers.empty();
  if (job == jobs_.end() && heard) Forget(job_id, looked->peers.front().generation.number);
  if (!effects.empty() || job == jobs_.end()) return effects;  // refused, or unknown
  std::optional<Event> known;
  if (looked != nullptr && !looked->peers.empty())
    known = Event{event.node_id, WithoutEnded(job_id, *looked)};
  if (StepOne(job_id, job->second, known ? *known : event, now, effects)) jobs_.erase(job);
  return effects;
}

bool JobTable::AdoptMembership(const std::string& job_id, const Assignment& last) {
  if (FindEnded(job_id, last.incarnation) != nullptr) return false;
  const auto job = jobs_.find(job_id);
  const bool here = job != jobs_.end() && !job->second.moved();
  return (!here || IsBehind(job->second, last)) && RememberLast(job_id, last);
}

bool JobTable::RememberLast(const std::string& job_id, const Assignment& last) {
  const auto known = remembered_.find(job_id);
  const bool newer = known == remembered_.end() || known->second.generation.incarnation != last.incarnation ||
                     last.generation > known->second.generation.generation;
  if (newer) remembered_[job_id] = {last, {}};
  return newer;
}

/// A service whose nodes are only not told yet that the run is over does not have the job.
ProbeResult JobTable::WithoutEnded(const std::string& job_id, ProbeResult looked) const {
  for (PeerService& peer : looked.peers) {
    const RememberedEnd* over = FindEnded(job_id, peer.incarnation);
    const bool has_it = looked.heard || peer.state == PeerService::State::kWithJob;
    if (!has_it || over == nullptr) continue;
    // After a failure, others may have continued from the very generation that failed here.
    const uint64_t last = over->run.last_number;
    if (peer.generation.number > last || (peer.generation.number == last && !over->run.success)) continue;
    peer.state = PeerService::State::kWithoutJob;
    peer.authority = false;
  }
  return looked;
}

void JobTable::Admit(const std::string& job_id, const Event& event, const StreamOpened& opened, TimePoint now,
                     std::vector<JobEffect>& effects) {
  const auto turn_away = [&](ServiceEvent why) {
    effects.emplace_back(job_id, Send{event.node_id, std::move(why)});
    effects.emplace_back(job_id, CloseSession{event.node_id});
  };
  // A node that knows of a later generation is of a part of the run that continued without the one that ended
  // here.
  const RememberedEnd* over = FindEnded(job_id, opened.incarnation);
  if (over != nullptr && opened.seen.number <= over->run.last_number)
    return turn_away(JobEnded{over->outcome});
  const auto job = jobs_.find(job_id);
  if (job != jobs_.end()) {
    const bool ended = job->second.outcome().has_value();
    if (!ended || job->second.Has(event.node_id) || job->second.incarnation() == opened.incarnation) return;
  }
  if (jobs_.size() + past_.size() >= kMaxJobs)
    return turn_away(Refused{{event.node_id, event.node_id,
                              NotServed{absl::StrCat("this service already serves ", kMaxJobs, " jobs")}}});
  if (job != jobs_.end()) {
    past_.emplace_back(job_id, std::move(job->second));
    jobs_.erase(job);
  }
  JobMachine::Options options = options_;
  options.seed = SplitMix64(options_.seed + ++made_);
  options.host_begins = !own_job_.empty() && job_id == own_job_;
  options.last_number = LastNumber(job_id);
  options.run = RunToContinue(job_id);
  const Forgotten* forgotten = FindForgotten(job_id);
  if (forgotten != nullptr && forgotten->moved) options.returned = now;
  if (auto remembered = remembered_.extract(job_id)) options.remembered = std::move(remembered.mapped());
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

std::optional<TimePoint> JobTable::NextDeadlineOf(const std::string& job_id) const {
  std::optional<TimePoint> next;
  if (const auto job = jobs_.find(job_id); job != jobs_.end()) next = job->second.NextDeadline();
  for (const auto& [past_id, job] : past_) {
    if (past_id == job_id) next = Earlier(next, job.NextDeadline());
  }
  return next;
}

Lease JobTable::LeaseFor(const std::string& job_id, const std::string& node_id, Duration sent,
                         TimePoint now) const {
  const auto job = jobs_.find(job_id);
  return job == jobs_.end() ? Lease{.sent = sent} : job->second.LeaseFor(node_id, sent, now);
}

const Assignment* JobTable::RunningIn(const std::string& job_id) const {
  const auto job = jobs_.find(job_id);
  const bool runs = job != jobs_.end() && job->second.generation().running();
  return runs ? &*job->second.last_generation() : nullptr;
}

std::vector<std::string> JobTable::InEnded() const {
  std::vector<std::string> nodes;
  const auto add = [&](const auto& jobs) {
    for (const auto& [job_id, job] : jobs) {
      if (!job.outcome()) continue;
      for (const auto& [node_id, node] : job.roster().nodes()) nodes.push_back(node_id);
    }
  };
  add(past_);
  add(jobs_);
  return nodes;
}

bool JobTable::Has(const std::string& job_id, const std::string& node_id) const {
  const auto job = jobs_.find(job_id);
  return (job != jobs_.end() && job->second.Has(node_id)) ||
         std::any_of(past_.begin(), past_.end(),
                     [&](const auto& past) { return past.first == job_id && past.second.Has(node_id); });
}

std::map<std::string, std::vector<EndedRun>> JobTable::EndedRuns() const {
  std::map<std::string, std::vector<EndedRun>> runs;
  for (const RememberedEnd& ended : ended_) runs[ended.job_id].push_back(ended.run);
  const auto add = [&](const auto& jobs) {
    for (const auto& [job_id, job] : jobs) {
      if (job.outcome()) runs[job_id].push_back(EndOf(job));
    }
  };
  add(past_);
  add(jobs_);
  return runs;
}

std::optional<RememberedEnd> JobTable::LastEnd(const std::string& job_id) const {
  const auto last = std::find_if(ended_.rbegin(), ended_.rend(),
                                 [&](const RememberedEnd& end) { return end.job_id == job_id; });
  return last == ended_.rend() ? std::nullopt : std::optional(*last);
}

uint64_t JobTable::LastNumber(const std::string& job_id) const {
  if (const auto job = jobs_.find(job_id); job != jobs_.end()) return job->second.last_number();
  const Forgotten* forgotten = FindForgotten(job_id);
  return forgotten == nullptr ? 0 : forgotten->last_number;
}

bool JobTable::StepOne(const std::string& job_id, JobMachine& job, const Event& event, TimePoint now,
                       std::vector<JobEffect>& effects) {
  for (Effect& effect : job.Step(event, now)) effects.emplace_back(job_id, std::move(effect));
  if (!job.Gone()) return false;
  const auto learned = remembered_.find(job_id);
  const Assignment* other = learned == remembered_.end() ? nullptr : &learned->second.generation;
  const bool over = job.outcome() || job.ended_elsewhere();
  if (over && other != nullptr && other->incarnation == job.incarnation()) remembered_.erase(learned);
  if (const auto& outcome = job.outcome()) {
    RememberEnd({job_id, EndOf(job), *outcome});
    for (Forgotten& forgotten : forgotten_) {
      if (forgotten.job_id == job_id && forgotten.run == job.incarnation()) forgotten.run = 0;
    }
    if (job.left_run() != 0) Forget(job_id, job.last_number(), job.left_run());
  } else if (const auto& end = job.ended_elsewhere()) {
    // At the other service nodes learn more, but that service ends with its node.
    RememberEnd({job_id, *end, OutcomeOf(*end)});
    Forget(job_id, job.last_number());
  } else if (job.last_number() > 0) {
    // The job continues elsewhere: the next nodes at the endpoint must not begin another run beside it.
    const bool at_endpoint = options_.role.embedded && !options_.role.standby;
    const bool behind = other != nullptr && IsBehind(job, *other);
    if (at_endpoint && job.last_generation() && !behind) RememberLast(job_id, *job.last_generation());
    Forget(job_id, job.last_number(), job.IsServedAlone() ? job.incarnation() : 0, job.moved());
  }
  effects.emplace_back(job_id, LogLine{"its last node is gone; the job is forgotten", true});
  return true;
}

void JobTable::RememberEnd(RememberedEnd end) {
  if (FindEnded(end.job_id, end.run.incarnation) != nullptr) return;
  ended_.push_back(std::move(end));
  if (ended_.size() > kMaxRemembered) ended_.pop_front();
}

void JobTable::Forget(const std::string& job_id, uint64_t last_number, uint64_t run, bool moved) {
  last_number = std::max(last_number, LastNumber(job_id));
  std::erase_if(forgotten_, [&](const Forgotten& forgotten) { return forgotten.job_id == job_id; });
  forgotten_.push_back(Forgotten{job_id, last_number, run, moved});
  if (forgotten_.size() > kMaxRemembered) forgotten_.pop_front();
}

const JobTable::Forgotten* JobTable::FindForgotten(const std::string& job_id) const {
  const auto found = std::find_if(forgotten_.begin(), forgotten_.end(),
                                  [&](const Forgotten& forgotten) { return forgotten.job_id == job_id; });
  return found == forgotten_.end() ? nullptr : &*found;
}

uint64_t JobTable::RunToContinue(const std::string& job_id) const {
  const Forgotten* forgotten = FindForgotten(job_id);
  if (forgotten == nullptr) return 0;
  const std::vector<EndedRun> ended = EndedRuns()[job_id];
  const bool over = std::any_of(ended.begin(), ended.end(),
                                [&](const EndedRun& run) { return run.incarnation == forgotten->run; });
  return over ? 0 : forgotten->run;
}

JobTable::Past::iterator JobTable::FindPast(const std::string& job_id, const std::string& node_id,
                                            uint64_t incarnation) {
  return std::find_if(past_.begin(), past_.end(), [&](const auto& past) {
    const JobMachine& job = past.second;
    return past.first == job_id && (job.Has(node_id) || job.incarnation() == incarnation);
  });
}

const RememberedEnd* JobTable::FindEnded(const std::string& job_id, uint64_t incarnation) const {
  const auto ended = std::find_if(ended_.begin(), ended_.end(), [&](const RememberedEnd& e) {
    return e.job_id == job_id && e.run.incarnation == incarnation;
  });
  return ended == ended_.end() ? nullptr : &*ended;
}

}  // namespace mtrun::rendezvous

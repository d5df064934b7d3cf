// The simulated job: the invariants, at every event and at the end.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/launcher/job_simulation.h"

namespace mtrun::launcher {

void JobSimulation::Broken(std::string what) {
  if (!broken_) broken_ = std::move(what);
}

void JobSimulation::NoteFormed(const Service& service, const rendezvous::Assignment& assignment) {
  if (!formed_.contains(assignment.generation)) NoteForgotten(service, assignment.generation.number);
  const auto [entry, created] = formed_.try_emplace(assignment.generation);
  if (!created) return;
  CheckBudget(assignment);
  CheckRuns(assignment);
  Formed& formed = entry->second;
  formed.generation = assignment.generation;
  formed.incarnation = assignment.incarnation;
  formed.order = formed_.size();
  for (const Agent& agent : agents_) {
    const bool member = std::any_of(assignment.members.begin(), assignment.members.end(),
                                    [&](const rendezvous::Member& m) { return m.node_id == agent.node_id; });
    if (!member || agent.incarnation == 0) continue;
    formed.job = agent.job;
    formed.run = static_cast<int>(ended_[agent.job].size());
    CheckRun(agent, formed);
  }
  for (const rendezvous::Member& member : assignment.members) {
    formed.workers += static_cast<size_t>(member.workers);
    formed.members.insert(member.node_id);
  }
  const auto known = service.known.find(settings_[formed.job].job_id);
  if (known != service.known.end()) formed.base = known->second;
  formed.formed_at = now_;
  formed.service = absl::StrCat("service ", service.id);
  for (const Agent& agent : agents_) {
    if (agent.incarnation != 0 && service.sessions.contains(agent.node_id))
      formed.informed.insert(agent.knows.begin(), agent.knows.end());
  }
}

/// Marks the generations that no living service knows: none can learn of those known only to nodes.
void JobSimulation::NoteServicesDied() {
  for (auto& [generation, formed] : formed_) {
    const std::string& job_id = settings_[formed.job].job_id;
    const bool known = std::any_of(services_.begin(), services_.end(), [&](const Service& service) {
      if (service.id == 0) return false;
      const auto job = service.jobs->jobs().find(job_id);
      return job != service.jobs->jobs().end() && job->second.generation().id().number > 0;
    });
    formed.forgotten |= !known && (setup_.lose_file || !file_.contains(job_id));
  }
}

/// Marks the generations that no living service or node knows when `former` issues `number`.
void JobSimulation::NoteForgotten(const Service& former, uint64_t number) {
  for (auto& [generation, formed] : formed_) {
    const std::string& job_id = settings_[formed.job].job_id;
    const bool served = std::any_of(services_.begin(), services_.end(), [&](const Service& service) {
      const uint64_t last = service.id == 0 ? 0 : service.jobs->LastNumber(job_id);
      return (&service == &former ? number - 1 : last) >= generation.number;
    });
    const bool known = std::any_of(agents_.begin(), agents_.end(), [&](const Agent& agent) {
      return agent.incarnation != 0 && agent.knows.contains(generation);
    });
    formed.forgotten = formed.forgotten || (!served && !known);
  }
}

const JobSimulation::Formed* JobSimulation::FindFormed(const rendezvous::Generation& generation) const {
  const auto found = formed_.find(generation);
  return found == formed_.end() ? nullptr : &found->second;
}

/// Returns whether the worker is in a generation and would commit a complete step of it.
bool JobSimulation::MayCommit(const Agent& agent, const Worker& worker) const {
  if (agent.said_leaving && setup_.trust_leavers) return false;
  const bool runs = worker.alive && !worker.doomed && !worker.frozen;
  if (!runs || worker.in == nullptr || worker.in == worker.done) return false;
  return std::any_of(agent.leases.begin(), agent.leases.end(), [&](const auto& lease) {
    return lease.first == worker.in->generation && NowOn(agent.node) < lease.second;
  });
}

/// Checks that a generation of an ordinary program did not end for the silence of a node without which the job
/// could not continue: all workers run, and the lease of the node lasts.
void JobSimulation::CheckSilence(const Service& service, const rendezvous::GenerationDissolved& over) {
  using How = rendezvous::NodeLost::How;
  const auto* lost = std::get_if<rendezvous::NodeLost>(&over.cause.kind);
  const Formed* formed = FindFormed(over.generation);
  if (lost == nullptr || formed == nullptr || setup_.cooperative) return;
  if (lost->how == How::kAgentGone || lost->how == How::kDropped || lost->how == How::kEvicted) return;
  // The end of a stream counts if the host refuses its presence port.
  if (setup_.firewall && lost->how != How::kSilent) return;
  size_t running = 0;
  bool leased = false;
  for (const Agent& agent : agents_) {
    if (agent.incarnation == 0 || !formed->members.contains(agent.node_id)) continue;
    for (const Worker& worker : agent.workers)
      running += worker.alive && !worker.doomed && worker.in == formed && worker.done != formed ? 1 : 0;
    if (agent.node_id != over.cause.node_id) continue;
    leased = std::any_of(agent.leases.begin(), agent.leases.end(), [&](const auto& lease) {
      return lease.first == over.generation && NowOn(agent.node) < lease.second;
    });
  }
  if (running < formed->workers || !leased) return;
  const auto& roster = service.jobs->jobs().at(settings_[formed->job].job_id).roster();
  const size_t left = formed->members.size() - 1 + roster.index().ready().size();
  if (left >= static_cast<size_t>(setup_.min_nodes)) return;
  Broken(absl::StrCat("generation ", over.generation.number,
                      " ends for silence, and the job cannot continue: ", rendezvous::Describe(over.cause)));
}

/// Returns whether both generations can commit because no service can know of both: a service cannot know of
/// a generation known only to dead services and to nodes not connected to it. If two runs of a job began like
/// this at different services, neither waits for the other.
bool JobSimulation::Excused(const Formed& old, const Formed& young) const {
  if (NobodyCouldTell(old, young)) return true;
  // No node has told the host about another run yet.
  if (setup_.lose_file && old.incarnation != young.incarnation) return true;
  if (old.forgotten && !young.informed.contains(old.generation)) return true;
  if (young.forgotten && !old.informed.contains(young.generation)) return true;
  const auto forgotten = [this](uint64_t incarnation) {
    return std::any_of(formed_.begin(), formed_.end(), [&](const auto& entry) {
      return entry.second.forgotten && entry.second.incarnation == incarnation;
    });
  };
  return old.incarnation != young.incarnation && (forgotten(old.incarnation) || forgotten(young.incarnation));
}

/// Returns whether neither generation's members could know of the other. Both follow the same generation.
/// When the second was formed, the service that had formed the first was dead, as were those members of the
/// common one that knew of the first. Another member had been away, so it cannot know that it was replaced or
/// is in the first one. An operator may have declared the first one's members dead.
bool JobSimulation::NobodyCouldTell(const Formed& one, const Formed& other) const {
  if (!setup_.excuse_untold && !fired_.contains(kEvicted)) return false;
  const auto line = [this](const Formed* formed) {
    std::vector<const Formed*> ancestors;
    for (; formed != nullptr; formed = FindFormed(formed->base)) ancestors.push_back(formed);
    return ancestors;
  };
  std::vector<const Formed*> a = line(&one), b = line(&other);
  const Formed* common = nullptr;
  for (; !a.empty() && !b.empty() && a.back() == b.back(); a.pop_back(), b.pop_back()) common = a.back();
  if (common == nullptr || a.empty() || b.empty()) return false;
  const bool in_order = a.back()->order < b.back()->order;
  const Formed &first = in_order ? *a.back() : *b.back(), &second = in_order ? *b.back() : *a.back();
  const auto dead = [&](const std::string& name) {
    const auto died = died_.find(name);
    return died != died_.end() && died->second <= second.formed_at;
  };
  const auto knew = [&](const std::string& member) {
    return std::any_of(agents_.begin(), agents_.end(), [&](const Agent& agent) {
      return agent.node_id == member && agent.incarnation != 0 && agent.knows.contains(first.generation);
    });
  };
  return dead(first.service) &&
         std::all_of(common->members.begin(), common->members.end(), [&](const std::string& member) {
           return !first.members.contains(member) || dead(member) || !knew(member);
         });
}

/// Runs after every event and mostly for few generations, so it does not allocate.
void JobSimulation::CountTakingPart() {
  taking_part_.clear();
  for (const Agent& agent : agents_) {
    if (agent.incarnation == 0) continue;
    for (const Worker& worker : agent.workers) {
      if (!MayCommit(agent, worker)) continue;
      const auto counted = std::find_if(taking_part_.begin(), taking_part_.end(),
                                        [&](const auto& entry) { return entry.first == worker.in; });
      if (counted == taking_part_.end()) {
        taking_part_.emplace_back(worker.in, 1);
      } else {
        ++counted->second;
      }
    }
  }
  std::sort(taking_part_.begin(), taking_part_.end(),
            [](const auto& a, const auto& b) { return a.first->order > b.first->order; });
}

/// A generation's steps can be committed while all its workers are in it and their leases last. Once a
/// younger generation could commit, an older one never commits again.
void JobSimulation::Check() {
  CountTakingPart();
  for (const auto& [formed, workers] : taking_part_) {
    if (workers < formed->workers) continue;
    formed->whole_at = now_;
    const Formed*& young = youngest_whole_[{formed->job, formed->run}];
    if (young == nullptr || young->OlderThan(*formed)) {
      young = formed;
    } else if (formed->OlderThan(*young)) {
      if (setup_.excuse_forgotten && Excused(*formed, *young)) {
        if (young->order < formed->order) young = formed;
        continue;
      }
      Broken(absl::StrCat(channel::ToText(formed->generation), " commits after ",
                          channel::ToText(young->generation), " could"));
    }
  }
}

/// Notes a failure. If the agent is frozen or cut off, it detects it once it knows of the next generation.
void JobSimulation::NoteFailed(const Agent& agent) {
  const Formed* newest = FindFormed(agent.last_run);
  for (const auto& [generation, formed] : formed_) {
    if (formed.members.contains(agent.node_id) && (newest == nullptr || newest->order < formed.order))
      newest = &formed;
  }
  if (newest == nullptr || newest->generation != agent.last_run)
    failed_in_.insert(newest == nullptr ? rendezvous::Generation{0, ++ids_} : newest->generation);
  if (agent.last_run.number > 0) failed_in_.insert(agent.last_run);
}

/// A failure is counted once, however many nodes report it and however often.
void JobSimulation::CheckBudget(const rendezvous::Assignment& assignment) {
  if (static_cast<size_t>(assignment.restart_count) <= failed_in_.size()) return;
  Broken(absl::StrCat(assignment.restart_count, " restarts are counted, workers were killed in ",
                      failed_in_.size(), " generations"));
}

/// A node of one run is never in a generation of the next, whatever the services remember.
void JobSimulation::CheckRuns(const rendezvous::Assignment& assignment) {
  if (!setup_.forget_runs) return;
  int oldest = setup_.runs, newest = 0;
  for (const Agent& agent : agents_) {
    const bool member = std::any_of(assignment.members.begin(), assignment.members.end(),
                                    [&](const rendezvous::Member& m) { return m.node_id == agent.node_id; });
    if (!member || agent.incarnation == 0) continue;
    newest = std::max(newest, agent.run);
    if (agent.last_run.number > 0) oldest = std::min(oldest, agent.run);
  }
  if (oldest < newest) Broken(absl::StrCat(channel::ToText(assignment.generation), " has nodes of two runs"));
}

/// Returns whether the agent's run has ended and a service that may have known this died. Saved state is
/// known as long as a service reads it.
bool JobSimulation::EndWasForgotten(const Agent& agent) const {
  const Formed* last = FindFormed(agent.last_run);
  const auto ended = ended_.find(agent.job);
  if (last == nullptr || ended == ended_.end()) return false;
  const auto kept = ends_.find(settings_[agent.job].job_id);
  // The others poll a few times a second.
  const bool read =
      services_[0].id != 0 && now_ - services_[0].since > std::chrono::seconds(1) && !setup_.lose_file;
  if (read && kept != ends_.end() && kept->second.run.incarnation == last->incarnation) return false;
  const auto end = ended->second.find(last->incarnation);
  return end != ended->second.end() && service_died_ > end->second;
}

/// A node that came after the end waits for others to start with, as does a node that cannot be told of it.
bool JobSimulation::MayStay(const Agent& agent) const {
  const Formed* last = FindFormed(agent.last_run);
  if (last == nullptr) return true;
  const auto ended = ended_.find(agent.job);
  const bool came_later =
      ended != ended_.end() && !ended->second.empty() && !ended->second.contains(last->incarnation);
  return came_later || EndWasForgotten(agent);
}

/// A node of an ended run is not in another one (as long as a service knows of the end).
bool JobSimulation::CheckRun(const Agent& member, const Formed& formed) {
  const Formed* last = FindFormed(member.last_run);
  if (last == nullptr) return true;
  const auto& ended = ended_[member.job];
  const auto end = ended.find(last->incarnation);
  if (end == ended.end() || EndWasForgotten(member)) return true;
  Broken(absl::StrCat(member.node_id, " is in ", channel::ToText(formed.generation), ", its run has ended"));
  return false;
}

void JobSimulation::NoteEnded(const std::string& node_id, const rendezvous::JobEnded& event) {
  for (const Agent& agent : agents_) {
    const Formed* last = agent.node_id == node_id ? FindFormed(agent.last_run) : nullptr;
    if (!event.outcome.success || last == nullptr) continue;
    if (ended_[agent.job].try_emplace(last->incarnation, now_).second) CheckDone(*last);
  }
}

/// A service continues as another run if a member of an older run returns, or if a run that can continue
/// elsewhere has no node left here.
void JobSimulation::NoteRuns(Service& service) {
  std::map<std::string, uint64_t> runs;
  for (const auto& [job_id, job] : service.jobs->jobs()) {
    if (job.outcome() || job.incarnation() == 0) continue;
    runs[job_id] = job.incarnation();
    const auto before = service.runs.find(job_id);
    if (before != service.runs.end() && before->second != job.incarnation())
      continued_[before->second].insert(job.incarnation());
  }
  service.runs = std::move(runs);
}

/// A run ends well if all members' workers are done in one generation. Trainers are done when the result is
/// safe.
void JobSimulation::CheckDone(const Formed& told) {
  std::set<uint64_t> runs = {told.incarnation};
  for (size_t before = 0; before < runs.size();) {
    before = runs.size();
    for (const uint64_t run : std::set<uint64_t>(runs))
      runs.insert(continued_[run].begin(), continued_[run].end());
  }
  std::string why;
  for (const auto& [generation, formed] : formed_) {
    if (!runs.contains(formed.incarnation)) continue;
    const auto done = done_.find(generation);
    const size_t needed = setup_.cooperative ? 1 : formed.workers;
    if (done != done_.end() && done->second.size() >= needed) return;
    absl::StrAppend(&why, ", ", done == done_.end() ? 0 : done->second.size(), " of ", formed.workers, " in ",
                    generation.number);
  }
  Broken(absl::StrCat("a run has ended well, and so many workers have done their work: ", why.substr(2)));
}

void JobSimulation::CheckEnded() {
  for (const Agent& agent : agents_) {
    if (alone_ == agent.node) {
      if (agent.incarnation != 0 && agent.core->phase() == AgentCore::Phase::kFinished)
        Broken(absl::StrCat(agent.node_id, " waits without a bound although its workers are done"));
      continue;
    }
    // A service that has taken over may hold for the node that is cut off.
    if (alone_ && setup_.hosted) continue;
    if ((setup_.late_faults > 0 || setup_.hosted) && MayStay(agent)) continue;
    if (agent.incarnation != 0 && agent.run <= finishing_ && !broken_)
      Broken(absl::StrCat(agent.node_id, " is still there after the end: ", agent.core->Describe()));
  }
}

/// A single service knows each node of the run, even if none was connected for a while.
void JobSimulation::CheckRefused(const Agent& agent) {
  const bool alone = setup_.services == 1 && !setup_.hosted;
  if (alone && !forgetful_ && finishing_ < agent.run)
    Broken(absl::StrCat(agent.node_id, " is turned away from its own run"));
}

std::string JobSimulation::CheckFormed(size_t job) const {
  std::set<rendezvous::Generation> generations;
  int members = 0;
  for (const Agent& agent : agents_) {
    if (agent.job != job) continue;
    if (agent.incarnation == 0) return absl::StrCat("no agent on node ", agent.node);
    if (agent.core->phase() == AgentCore::Phase::kRunning) {
      ++members;
      generations.insert(agent.core->assignment()->generation);
    } else if (agent.core->phase() != AgentCore::Phase::kJoining &&
               agent.core->phase() !=
                   AgentCore::Phase::kRegrouping) {  // a spare, with or without old workers
      return absl::StrCat(agent.node_id, " is ", agent.core->Describe());
    }
  }
  // Two parts of a run that cannot know of each other stay separate.
  if (setup_.excuse_forgotten && generations.size() == 2 &&
      NobodyCouldTell(*FindFormed(*generations.begin()), *FindFormed(*generations.rbegin())))
    return "";
  const int wanted = std::min(setup_.nodes, setup_.max_nodes);
  if (members != wanted) return absl::StrCat(members, " of ", wanted, " nodes run");
  if (generations.size() != 1) return absl::StrCat(generations.size(), " generations run");
  const Formed* formed = FindFormed(*generations.begin());
  if (now_ - formed->whole_at > std::chrono::seconds(1))
    return absl::StrCat(channel::ToText(formed->generation), " commits nothing");
  return "";
}

std::string JobSimulation::CheckWarm(size_t job) const {
  for (const Agent& agent : agents_) {
    if (agent.job != job || agent.core->phase() != AgentCore::Phase::kRunning) continue;
    const std::string state = agent.core->Describe();
    const bool given_up = state.find("given up") != std::string::npos;
    if (!given_up && state.find("warm") != std::string::npos)
      return absl::StrCat(agent.node_id, " has workers without a rank: ", state);
  }
  return "";
}

}  // namespace mtrun::launcher

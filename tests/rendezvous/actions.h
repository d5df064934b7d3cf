// What can happen to the nodes of a small job, as actions for the exploration, and the worlds it begins from.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/job_settings.h"
#include "tests/rendezvous/explorer.h"

namespace mtrun::rendezvous {

JobSettings Settings(int min_nodes, int max_nodes, int max_restarts);
/// "service1", "service2", ...
std::vector<std::string> Services(int count);
/// These nodes have joined and run, or wait beyond max_nodes.
ClusterSimulation RunningJob(const JobSettings& settings, const std::vector<std::string>& nodes);
/// What these nodes run from an earlier service: generation `number` of a run, 0: whatever this one is.
std::map<std::string, Assignment> HeldBy(const std::vector<std::string>& nodes, uint64_t number = 1,
                                         uint64_t incarnation = 0);

// ---- of one node ----
Action Open(const std::string& node);
Action CloseStream(const std::string& node);
Action OfferAgain(const std::string& node);
/// An offer from before its last assignment, delivered late.
Action OfferLate(const std::string& node);
/// Opens its stream and offers itself.
Action Arrive(const std::string& node);
/// Opens its stream and says that it runs what it holds.
Action Return(const std::string& node, const std::map<std::string, Assignment>& held);
/// Opens its stream and reports that its workers have finished, before it says that it runs what it holds.
Action ReportBefore(const std::string& node, const std::map<std::string, Assignment>& held);
Action Leave(const std::string& node);
/// By an operator.
Action EvictNode(const std::string& node);
Action DrainNode(const std::string& node);
Action StopJob(bool checkpoint);
Action Fail(const std::string& node);
Action FailEarly(const std::string& node);
Action FailForSettings(const std::string& node);
Action Break(const std::string& node);
Action Finish(const std::string& node);
/// Waits for a key; always the same request.
Action Wait(const std::string& node);
Action Set(const std::string& node);
Action Steps(const std::string& node, int64_t step);
/// As many steps as the time that has passed allows.
Action StepsByTime(const std::string& node);

// ---- of all ----
Action OfferAll(const std::vector<std::string>& nodes);
Action Beats(const std::vector<std::string>& nodes);
/// To the next deadline, nobody heard before it.
Action NextTick();
/// Time passes, connected nodes are heard.
Action Pass(Duration duration);
/// The other services answer; `peers` in the order of the job's endpoints, their names are filled in.
Action Look(const JobSettings& settings, std::vector<PeerService> peers,
            const std::set<std::string>& dead = {});
PeerService Peer(PeerService::State state, uint64_t generation = 0, bool authority = false);

/// What happens to every job, for each node.
std::vector<Action> EverydayActions(const std::vector<std::string>& nodes);

}  // namespace mtrun::rendezvous

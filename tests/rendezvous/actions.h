// Actions of the nodes of a small job for the exploration, and the worlds from which it starts.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/explorer.h"

namespace mtrun::rendezvous {

JobSettings Settings(int min_nodes, int max_nodes, int max_restarts);
/// Returns "service1", "service2", ...
std::vector<std::string> Services(int count);
/// Returns a job that these nodes have joined, and in which they run, or wait beyond max_nodes.
ClusterSimulation RunningJob(const JobSettings& settings, const std::vector<std::string>& nodes,
                             bool ordinary = false);
/// Returns what these nodes run from an earlier service: generation `number` of a run, 0: the current one.
std::map<std::string, Assignment> HeldBy(const std::vector<std::string>& nodes, uint64_t number = 1,
                                         uint64_t incarnation = 0);

// ---- actions of one node ----
Action Open(const std::string& node);
Action CloseStream(const std::string& node);
Action OfferAgain(const std::string& node);
/// Delivers late an offer from before the node's last assignment.
Action OfferLate(const std::string& node);
/// Opens the node's stream and sends its offer.
Action Arrive(const std::string& node);
/// Opens the node's stream and reports that it runs what it holds.
Action Return(const std::string& node, const std::map<std::string, Assignment>& held);
/// Opens the node's stream and reports finished workers before it reports what it holds.
Action ReportBefore(const std::string& node, const std::map<std::string, Assignment>& held);
Action Leave(const std::string& node);
/// An operator's eviction.
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
/// Commits as many steps as the elapsed time allows.
Action StepsByTime(const std::string& node);

// ---- of all ----
Action OfferAll(const std::vector<std::string>& nodes);
Action Beats(const std::vector<std::string>& nodes);
/// Advances to the next deadline without messages of nodes.
Action NextTick();
/// Advances the time while connected nodes send heartbeats.
Action Pass(Duration duration);
/// Delivers the answers of the other services: `peers` in the order of the job's endpoints, whose names are
/// filled in.
Action Look(const JobSettings& settings, std::vector<PeerService> peers,
            const std::set<std::string>& dead = {});
PeerService Peer(PeerService::State state, uint64_t generation = 0, bool authority = false);

/// Returns the actions that occur in every job, for each node.
std::vector<Action> EverydayActions(const std::vector<std::string>& nodes);

}  // namespace mtrun::rendezvous

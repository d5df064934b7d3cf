// Finds the job and the node that a request from outside names; errors list the choices. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/job/state_machine.h"

namespace mtrun::rendezvous {

using Jobs = std::map<std::string, JobMachine>;

/// Returns "job \"x\"".
std::string QuotedJob(const std::string& job_id);
/// Returns the first Roster::kFewNodes names, and how many more there are.
std::string FewJoined(std::vector<std::string> names);

/// `job_id` "": the only job that has not ended. Returns kNotFound if the service does not have it,
/// kFailedPrecondition if there are several.
absl::StatusOr<const JobMachine*> ChooseJob(const Jobs& jobs, const std::string& job_id);

/// Returns kFailedPrecondition; `consequence` says why the request is void: "it waits for nobody".
absl::Status HasEndedError(const JobMachine& job, const std::string& consequence);

/// The names of a node: host and id.
struct NodeName {
  std::string node_id, host;
};
/// Returns the node that `name` (a host or a node id) names. Else kFailedPrecondition lists the nodes:
/// "\"node3\" is no member of generation 1 of job \"x\", which is of node1, node2". `kind`: "member", "node";
/// `where`: of what.
absl::StatusOr<NodeName> ChooseNode(const std::vector<NodeName>& nodes, const std::string& name,
                                    const std::string& kind, const std::string& where);

/// Returns its host if that is unique among `nodes`, else its id.
std::string ShortName(const std::vector<NodeName>& nodes, const NodeName& node);

}  // namespace mtrun::rendezvous

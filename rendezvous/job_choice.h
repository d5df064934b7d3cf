// Which job and which node somebody means who asks a service from outside; what there is to choose from is in
// the errors. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/state_machine.h"

namespace mtrun::rendezvous {

using Jobs = std::map<std::string, JobMachine>;

/// "job \"x\"".
std::string QuotedJob(const std::string& job_id);
/// The first Roster::kFewNodes of them, and how many more there are.
std::string FewJoined(std::vector<std::string> names);

/// `job_id` "": the only one that has not ended. kNotFound: the service does not have it;
/// kFailedPrecondition: there are several.
absl::StatusOr<const JobMachine*> ChooseJob(const Jobs& jobs, const std::string& job_id);

/// kFailedPrecondition, for what `it` would be asked to do: "it waits for nobody".
absl::Status HasEndedError(const JobMachine& job, const std::string& consequence);

/// How somebody may call a node, and which one that is.
struct NodeName {
  std::string node_id, host;
};
/// The node of `nodes` that `name` (a host or a node id) means. kFailedPrecondition says what there is:
/// "\"node3\" is no member of generation 1 of job \"x\", which is of node1, node2". `kind`: "member", "node";
/// `where`: of what.
absl::StatusOr<NodeName> ChooseNode(const std::vector<NodeName>& nodes, const std::string& name,
                                    const std::string& kind, const std::string& where);

/// Its host where no other of `nodes` has that, else its id.
std::string ShortName(const std::vector<NodeName>& nodes, const NodeName& node);

}  // namespace mtrun::rendezvous

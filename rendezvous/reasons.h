// Words that the service says of nodes that are gone, and agents shorten for people
// (launcher/core/regroup_line).
#pragma once

namespace mtrun::rendezvous {

// "node2 is lost: its stream ended", "node2 leaves: node2 received SIGINT".
inline constexpr char kIsLost[] = " is lost: ";
inline constexpr char kLeaves[] = " leaves: ";

// Why a node is lost. Nobody knows whether its mtrun or the network failed:
inline constexpr char kStreamEnded[] = "its stream ended";
inline constexpr char kConnectionBroke[] = "its connection broke";
/// Its host answers that none of its processes is left.
inline constexpr char kAgentGone[] = "its agent is gone";
inline constexpr char kNotBack[] = "it did not come back to the new service";
inline constexpr char kSilentFor[] = "no heartbeat for ";
inline constexpr char kEvictedBy[] = "evicted by ";

}  // namespace mtrun::rendezvous

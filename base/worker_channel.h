// Messages between an agent and its workers: one JSON object a line over the Unix socket MTRUN_SOCKET
// (docs/protocol.md). Pure values and their codec; base/worker_client.h is the worker's end, launcher/ holds
// the agent's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::channel {

inline constexpr int kProtocolVersion = 1;

/// Identity of a generation: a number that grows and a random id. Text form "number.id" with the id in
/// hexadecimal.
struct Generation {
  uint64_t number = 0;
  uint64_t id = 0;
  auto operator<=>(const Generation&) const = default;
};
std::string ToText(const Generation& generation);
absl::StatusOr<Generation> ParseGeneration(std::string_view text);

// ---- worker -> agent
// ------------------------------------------------------------------------------------------
/// First message. A worker that never says hello is an ordinary program.
struct Hello {
  int protocol = kProtocolVersion;
  int64_t pid = 0;
  int local_rank = 0;
  bool cooperative = false;  // stays alive over a dissolved generation and takes the next assignment
  bool reports = false;      // knows Watch
  bool operator==(const Hello&) const = default;
};
/// Its group of `generation` is connected; number 0: it has prepared everything and waits for its first
/// assignment.
struct Ready {
  Generation generation = {};
  bool operator==(const Ready&) const = default;
};
struct Progress {
  int64_t epoch = 0;
  int64_t step = 0;     // finished steps
  int64_t samples = 0;  // consumed samples in all
  bool operator==(const Progress&) const = default;
};
/// Where the time of a step goes and what comes of it, on average since it was said the last time: while
/// somebody watches, every two seconds at most.
struct StepTimes {
  int64_t step = 0;
  double data_seconds = 0;      // of a step, waiting for input
  double exchange_seconds = 0;  // of a step, waiting for other workers
  // Where it has them: its training's loss, likewise, and its learning rate now.
  std::optional<double> loss = {};
  std::optional<double> learning_rate = {};
  bool operator==(const StepTimes&) const = default;
};
/// Key-value space of a generation: the one named, or (number 0) whichever is current when the agent reads
/// this. Values are bytes. What belongs to a generation that is over is dropped.
struct StoreSet {
  std::string key, value;
  Generation generation = {};
  bool operator==(const StoreSet&) const = default;
};
/// The space has at most so many keys, and a question may name so many: whoever has more asks several times.
inline constexpr size_t kMaxStoreEntries = 4096, kMaxStoreKeys = 1024;
/// Answered by StoreValues with the same id at once (missing keys, or a generation that is over, give an
/// error) ...
struct StoreGet {
  int64_t id = 0;
  std::vector<std::string> keys;
  Generation generation = {};
  bool operator==(const StoreGet&) const = default;
};
/// ... or when all keys are there.
struct StoreWait {
  int64_t id = 0;
  std::vector<std::string> keys;
  Generation generation = {};
  bool operator==(const StoreWait&) const = default;
};
/// The results of the whole run are safe, by all members of `generation` (0.0: of the one that runs).
struct Done {
  int64_t step = 0;
  Generation generation = {};
  bool operator==(const Done&) const = default;
};
struct Leaving {
  std::string why;
  bool operator==(const Leaving&) const = default;
};

/// Said again and again while a collective of `generation` (or the way to it) waits for other workers, so
/// that one that hangs can be told from those who wait for it.
struct Waiting {
  Generation generation;
  double seconds = 0;                 // so far
  std::optional<int> unreached = {};  // a rank of another node that does not answer; said once
  bool operator==(const Waiting&) const = default;
};
/// The collectives of `generation` failed although nobody seems dead: everybody is to regroup.
struct Broken {
  Generation generation;
  std::string why;
  bool operator==(const Broken&) const = default;
};

using WorkerMessage = std::variant<Hello, Ready, Progress, StoreSet, StoreGet, StoreWait, Done, Leaving,
                                   Waiting, Broken, StepTimes>;

// ---- agent -> worker
// ------------------------------------------------------------------------------------------
struct Peer {  // one node
  std::string host, address;
  int first_rank = 0, workers = 0;
  bool operator==(const Peer&) const = default;
};
struct Assignment {
  Generation generation;
  int rank = 0, local_rank = 0, world_size = 1, local_world_size = 1;
  int node_rank = 0;
  std::vector<Peer> peers;  // in order of node_rank
  bool operator==(const Assignment&) const = default;
};
struct Dissolved {
  Generation generation;
  std::string why;
  bool graceful = false;  // no member is lost: leave it together, behind a step, not in the middle of one
  bool operator==(const Dissolved&) const = default;
};
struct Drain {
  double deadline_seconds = 0;  // grace from now
  std::string why;
  bool operator==(const Drain&) const = default;
};
struct Stop {
  std::string why;
  bool complete = false;  // the job has ended, and its work is done: nobody needs what a worker still holds
  bool others_continue = false;  // the job runs on other nodes, without this one, which was told to go
  bool operator==(const Stop&) const = default;
};
struct StoreValues {
  int64_t id = 0;
  std::map<std::string, std::string> values;
  std::string error;  // "" when all keys are there
  bool operator==(const StoreValues&) const = default;
};

/// To workers that know it: somebody watches for the next `seconds`.
struct Watch {
  double seconds = 0;
  bool operator==(const Watch&) const = default;
};

using AgentMessage = std::variant<Assignment, Dissolved, Drain, Stop, StoreValues, Watch>;

/// One line with its '\n'.
std::string Encode(const WorkerMessage& message);
std::string Encode(const AgentMessage& message);
/// A line without '\n'. kInvalidArgument says which field of which message is missing or of the wrong type;
/// an unknown type is an error too, unknown extra fields are ignored (a newer peer may send them).
absl::StatusOr<WorkerMessage> DecodeWorkerMessage(std::string_view line);
absl::StatusOr<AgentMessage> DecodeAgentMessage(std::string_view line);

}  // namespace mtrun::channel

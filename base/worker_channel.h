// Messages between an agent and its workers: one JSON object per line over the Unix socket MTRUN_SOCKET
// (docs/protocol.md). Pure values and their codec; base/worker_client.h is the worker's end, launcher/ has
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

/// Identity of a generation: an increasing number and a random id. Text form: "number.id", with the id in
/// hexadecimal.
struct Generation {
  uint64_t number = 0;
  uint64_t id = 0;
  auto operator<=>(const Generation&) const = default;
};
std::string ToText(const Generation& generation);
absl::StatusOr<Generation> ParseGeneration(std::string_view text);

// ---- worker -> agent --------------------------------------------------------------------------------------
/// The first message. A worker that never sends it is treated as an ordinary program.
struct Hello {
  int protocol = kProtocolVersion;
  int64_t pid = 0;
  int local_rank = 0;
  bool cooperative = false;  // survives a dissolved generation and takes the next assignment
  bool reports = false;      // understands Watch
  bool operator==(const Hello&) const = default;
};
/// The worker's process group for `generation` is connected. Number 0: the worker has finished its
/// preparation and waits for its first assignment.
struct Ready {
  Generation generation = {};
  bool operator==(const Ready&) const = default;
};
struct Progress {
  int64_t epoch = 0;
  int64_t step = 0;     // finished steps
  int64_t samples = 0;  // total consumed samples
  bool operator==(const Progress&) const = default;
};
/// Returns what is wrong with such progress, or nothing: a step outside 0 to 2^53, or an epoch or
/// samples outside -1 (unknown) to 2^53.
std::string Implausible(const Progress& progress);
/// Breakdown of the step time and training values, averaged since the previous message. Sent at most every
/// two seconds, and only while a client watches.
struct StepTimes {
  int64_t step = 0;
  double data_seconds = 0;      // per step, waiting for input
  double exchange_seconds = 0;  // per step, waiting for other workers
  // The training loss, averaged likewise, and the current learning rate, if the worker has them.
  std::optional<double> loss = {};
  std::optional<double> learning_rate = {};
  std::optional<double> accuracy = {};  // part of right predictions, averaged likewise
  // How far the run is. 0 or "": unknown.
  int64_t epoch = 0;  // of the next step, counted from 1
  int64_t epochs = 0, total_steps = 0;
  std::string run = {};  // the name of its folder
  bool operator==(const StepTimes&) const = default;
};
/// Sets a key of a generation's key-value space: the named generation, or (number 0) the one that is current
/// when the agent reads this. Values are bytes. Messages for a finished generation are dropped.
struct StoreSet {
  std::string key, value;
  Generation generation = {};
  bool operator==(const StoreSet&) const = default;
};
/// Maximum keys in a space, and in one request; a client that needs more sends several requests.
inline constexpr size_t kMaxStoreEntries = 4096, kMaxStoreKeys = 1024;
/// Requests values. Answered at once by StoreValues with the same id; missing keys or a finished generation
/// are an error.
struct StoreGet {
  int64_t id = 0;
  std::vector<std::string> keys;
  Generation generation = {};
  bool operator==(const StoreGet&) const = default;
};
/// Like StoreGet, but answered when all keys exist.
struct StoreWait {
  int64_t id = 0;
  std::vector<std::string> keys;
  Generation generation = {};
  bool operator==(const StoreWait&) const = default;
};
/// All members of `generation` (0.0: the current one) have saved the results of the whole run.
struct Done {
  int64_t step = 0;
  Generation generation = {};
  bool operator==(const Done&) const = default;
};
struct Leaving {
  std::string why;
  bool operator==(const Leaving&) const = default;
};

/// Sent repeatedly while a collective of `generation` (or its setup) waits for other workers, so that the
/// agent can tell a hanging worker from those that wait for it.
struct Waiting {
  Generation generation;
  double seconds = 0;                 // so far
  std::optional<int> unreached = {};  // a rank on another node that does not respond; sent once
  bool operator==(const Waiting&) const = default;
};
/// The collectives of `generation` failed although no worker seems dead: all members must regroup.
struct Broken {
  Generation generation;
  std::string why;
  bool operator==(const Broken&) const = default;
};

/// Requests the key for data servers (base/data_key.h). Any program below the agent may send it, without a
/// Hello.
struct DataKeyRequest {
  bool operator==(const DataKeyRequest&) const = default;
};

using WorkerMessage = std::variant<Hello, Ready, Progress, StoreSet, StoreGet, StoreWait, Done, Leaving,
                                   Waiting, Broken, StepTimes, DataKeyRequest>;

// ---- agent -> worker --------------------------------------------------------------------------------------
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
  bool graceful = false;  // no member was lost: leave together after a step, not in the middle of one
  bool operator==(const Dissolved&) const = default;
};
struct Drain {
  double deadline_seconds = 0;  // grace from now
  std::string why;
  bool operator==(const Drain&) const = default;
};
struct Stop {
  std::string why;
  bool complete = false;         // the job has ended successfully: the worker's remaining state is not needed
  bool others_continue = false;  // the job continues on other nodes; this one was told to leave
  bool operator==(const Stop&) const = default;
};
struct StoreValues {
  int64_t id = 0;
  std::map<std::string, std::string> values;
  std::string error;  // "" if all keys exist
  bool operator==(const StoreValues&) const = default;
};

/// Sent to workers that understand it: a client watches for the next `seconds`.
struct Watch {
  double seconds = 0;
  bool operator==(const Watch&) const = default;
};

/// Answers DataKeyRequest.
struct DataKeyReply {
  std::string key;  // "": the node has none
  bool operator==(const DataKeyReply&) const = default;
};

using AgentMessage = std::variant<Assignment, Dissolved, Drain, Stop, StoreValues, Watch, DataKeyReply>;

/// Returns one line with its '\n'.
std::string Encode(const WorkerMessage& message);
std::string Encode(const AgentMessage& message);
/// Parses a line without '\n'. kInvalidArgument says which field of which message is missing or mistyped. An
/// unknown type is an error too; unknown extra fields are ignored, because a newer peer may send them.
absl::StatusOr<WorkerMessage> DecodeWorkerMessage(std::string_view line);
absl::StatusOr<AgentMessage> DecodeAgentMessage(std::string_view line);

}  // namespace mtrun::channel

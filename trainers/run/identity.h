// What the workers of a run must have the same, and with whom: all of it by name, as text. Pure; free of
// LibTorch.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/settings.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/run/options.h"

namespace mtrun::trainers {

struct RunIdentity {
  checkpoints::Identity run;         // with all members and all restarts; checkpoints carry it
  checkpoints::Identity generation;  // with the members of the generation alone
  // Names that a checkpoint may have with another text, or alone: those of other scopes, which an earlier
  // release wrote down.
  std::set<std::string> not_of_run;
  bool operator==(const RunIdentity&) const = default;
};

/// In the identity of a run that draws random numbers: the version of the definition that they follow
/// (random_stream.h). A checkpoint of such a run without it is of version 1.
inline constexpr char kRandomStreams[] = "random_streams";

/// By the scopes of the program's options, `own` ones included. `data`: digest of the data set. `draws`:
/// training draws random numbers. REQUIRES: what is derived is in `options` and `settings`.
RunIdentity MakeIdentity(const std::string& program, const std::string& data, const TrainOptions& options,
                         const Settings& settings, const std::vector<Option>& own, bool draws);

/// kFailedPrecondition where the checkpoint is of another run, or of this one with other random numbers.
absl::Status CheckContinues(const RunIdentity& identity, const checkpoints::Identity& checkpoint);

/// What a member tells the others: its version and its identity.
std::string EncodeClaim(const RunIdentity& identity, const std::string& version);
/// What differs, by name, with each text and the ranks that have it; versions alone when these differ; ""
/// when nothing does. claims[rank] is that member's.
std::string DescribeDifferences(const std::vector<std::string>& claims);

}  // namespace mtrun::trainers

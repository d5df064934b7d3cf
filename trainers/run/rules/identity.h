// The properties that the workers of a run must share, and with which workers, as named texts. Pure; does not
// depend on LibTorch.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/settings.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/run/rules/machines.h"
#include "trainers/run/rules/options.h"

namespace mtrun::trainers {

struct RunIdentity {
  checkpoints::Identity run;         // shared by all members over all restarts; stored in checkpoints
  checkpoints::Identity generation;  // shared by the members of the generation only
  // Names whose text in a checkpoint can differ, or that only the checkpoint can have. They belong to options
  // of other scopes, which an earlier release wrote.
  std::set<std::string> not_of_run;
  // Names of `run` with the text of their default. A checkpoint of a release without such an option continues.
  std::set<std::string> at_default = {};
  // Kind of this member's machine. It can differ, with other last bits (machines.h).
  std::string machine = "";
  bool operator==(const RunIdentity&) const = default;
};

/// Name, in the identity of a run that draws random numbers, of the version of their definition
/// (random_stream.h). A checkpoint of such a run without it has version 1.
inline constexpr char kRandomStreams[] = "random_streams";

/// Name, in the identity of a run that decodes files with --decode fast, of the version of their pixels
/// (image_file.h). A checkpoint of such a run without it has version 1.
inline constexpr char kFastPixels[] = "fast_pixels";

/// Needs of a run's training that its options do not show.
struct RunMeans {
  bool draws = false;    // random numbers
  bool decodes = false;  // images that are stored as files
};

/// Builds the identity by the scopes of the program's options, its `own` included. `data`: digest of the data
/// set. REQUIRES: derived values are in `options` and `settings`.
RunIdentity MakeIdentity(const std::string& program, const std::string& data, const TrainOptions& options,
                         const Settings& settings, const std::vector<Option>& own, const RunMeans& means);

/// Returns kFailedPrecondition if the checkpoint is of another run, or of this run with other random numbers.
absl::Status CheckContinues(const RunIdentity& identity, const checkpoints::Identity& checkpoint);
/// Describes how images are decoded differently from now on; "" if they are not. The run continues either
/// way.
std::string DescribeOtherPixels(const RunIdentity& identity, const checkpoints::Identity& checkpoint);

/// Encodes what a member sends to the others: its version and its identity.
std::string EncodeClaim(const RunIdentity& identity, const std::string& version);
/// Lists the differences by name, each with its texts and the ranks that have them. If the versions differ,
/// lists only these. Returns "" if nothing differs. claims[rank] is that member's claim.
std::string DescribeDifferences(const std::vector<std::string>& claims);
/// Returns the kinds of machines in the claims. They are no difference that is refused.
Machines MachinesIn(const std::vector<std::string>& claims);

}  // namespace mtrun::trainers

#include "trainers/program/run_environment.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mtrun::trainers {
namespace {

/// Returns whether this process started with the job. A replacement must not repeat a fault.
bool BeganWithTheJob(const EnvironmentMap& environment) {
  const auto generation = environment.find("MTRUN_GENERATION");
  if (generation == environment.end()) return true;
  // 0 is for the first workers, which start before the job has a generation.
  return absl::StartsWith(generation->second, "0.") || absl::StartsWith(generation->second, "1.");
}

absl::StatusOr<std::vector<Fault>> PlannedFaults(const EnvironmentMap& environment) {
  const auto text = environment.find("MTRUN_FAULTS");
  if (text == environment.end() || !BeganWithTheJob(environment)) return std::vector<Fault>();
  return ParseFaults(text->second);
}

/// Returns zero if the variable `name` is not set.
absl::StatusOr<Duration> SecondsOf(const EnvironmentMap& environment, const char* name) {
  constexpr double kMost = 1e6;
  const auto text = environment.find(name);
  if (text == environment.end()) return Duration::zero();
  double seconds = 0;
  if (absl::SimpleAtod(text->second, &seconds) && seconds >= 0 && seconds <= kMost)
    return FromSeconds(seconds);
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": \"", text->second, "\" is not a number of seconds from 0 to ", kMost));
}

}  // namespace

absl::StatusOr<RunEnvironment> ReadRunEnvironment(const EnvironmentMap& environment) {
  RunEnvironment found;
  MT_ASSIGN_OR_RETURN(found.faults, PlannedFaults(environment));
  MT_ASSIGN_OR_RETURN(found.pace, SecondsOf(environment, "MTRUN_PACE"));
  MT_ASSIGN_OR_RETURN(found.grace, SecondsOf(environment, "MTRUN_SHUTDOWN_TIMEOUT"));
  return found;
}

}  // namespace mtrun::trainers

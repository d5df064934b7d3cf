// Words that stand for flags: mtrun train, status, top, stop, doctor, predict, export. Pure except for
// TrainerOfRun.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

/// Returns whether `word` in the place of a program stands for flags.
bool IsWord(const std::string& word);

/// Finds the trainer of a run folder.
using TrainerOf = std::function<absl::StatusOr<std::string>(const std::string& run)>;

/// Returns `args` with the flags that its first word stands for:
///   train [flags] NAME ...        [flags] --trainer NAME ...
///   status|top|stop ENDPOINT ...  --status|--top|--stop ENDPOINT ...
///   doctor [ENDPOINT] ...         --doctor [ENDPOINT] ...
///   predict RUN FILE ...          --trainer NAME --weights_of RUN --predict FILE ...
///   export RUN FOLDER ...         --trainer NAME --weights_of RUN --export FOLDER ...
/// Other arguments are returned unchanged. Errors are those of `trainer_of`, and kInvalidArgument if a run is
/// missing.
absl::StatusOr<std::vector<std::string>> FlagsForWord(const std::vector<std::string>& args,
                                                      const TrainerOf& trainer_of);

/// Returns the trainer that `run` was made with, by the section of its config.yaml. kNotFound if it has none.
absl::StatusOr<std::string> TrainerOfRun(const std::string& run);

}  // namespace mtrun::launcher

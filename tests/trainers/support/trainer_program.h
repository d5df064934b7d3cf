// Runs training programs under test as a user starts them: alone, or as several manually started workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::trainers::testing {

using Args = std::vector<std::string>;

/// Returns an environment without variables of a launcher of the test itself, and with one thread a worker.
support::Overlay NoLauncher();

/// One line of metrics.jsonl.
struct StepLine {
  double loss = 0;
  int64_t samples = 0;
};
/// Returns the lines of all steps, in order.
std::vector<StepLine> Steps(const std::string& run_folder);
nlohmann::json Report(const std::string& run_folder);
/// Returns the evaluations in metrics.jsonl, as the program wrote them.
std::vector<nlohmann::json> Evaluations(const std::string& run_folder);

/// Starts a program of the build by its name.
std::unique_ptr<support::Program> Start(const std::string& program, Args args,
                                        const support::Overlay& overlay = NoLauncher());
/// Starts `world` workers, each with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT and a copy of `args`.
std::vector<std::unique_ptr<support::Program>> StartWorld(const std::string& program, int world,
                                                          const Args& args,
                                                          const support::Overlay& more = {});
/// Runs to success (the test fails otherwise) and returns rank 0's output.
std::string Run(const std::string& program, int world, const Args& args,
                support::Seconds patience = support::kPatience);

/// Writes the first `train` and `test` images of Debian's Fashion-MNIST as a packed set `<folder>/fashion`.
/// Returns "" if the package is not installed.
std::string FashionSet(const std::string& folder, int64_t train, int64_t test);

/// Writes tests/testdata/cifar10 (2,000 train and 500 test images) as a packed set `<folder>/cifar10`.
std::string CifarSet(const std::string& folder);
/// Writes the first `train` training images of CifarSet `cifar`, the same number of each class, and all its
/// test images, as `<folder>/cifar10-<train>`.
std::string CifarPart(const std::string& cifar, const std::string& folder, int64_t train);

}  // namespace mtrun::trainers::testing

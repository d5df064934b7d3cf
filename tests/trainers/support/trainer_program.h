// Training programs under test, as a user starts them: alone, or as several workers by hand.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/support/program.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::trainers::testing {

using Args = std::vector<std::string>;

/// Nothing of a launcher that may have started the test itself, and one thread a worker.
support::Overlay NoLauncher();

/// One line of metrics.jsonl.
struct StepLine {
  double loss = 0;
  int64_t samples = 0;
};
/// Those of all steps, in their order.
std::vector<StepLine> Steps(const std::string& run_folder);
nlohmann::json Report(const std::string& run_folder);
/// `evaluations` in metrics.jsonl, as the program wrote them.
std::vector<nlohmann::json> Evaluations(const std::string& run_folder);

/// A program of the build by its name.
std::unique_ptr<support::Program> Start(const std::string& program, Args args,
                                        const support::Overlay& overlay = NoLauncher());
/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of each of `world` workers; the caller's own argument list
/// each.
std::vector<std::unique_ptr<support::Program>> StartWorld(const std::string& program, int world,
                                                          const Args& args,
                                                          const support::Overlay& more = {});
/// Runs to success (the test fails otherwise) and returns rank 0's output.
std::string Run(const std::string& program, int world, const Args& args,
                support::Seconds patience = support::kPatience);

/// Debian's Fashion-MNIST, the first `train` and `test` images, as a packed set `<folder>/fashion`; "" where
/// the package is not installed.
std::string FashionSet(const std::string& folder, int64_t train, int64_t test);

/// The 2,500 real images of tests/testdata/cifar10 as a packed set `<folder>/cifar10`: 2,000 train, 500 test.
std::string CifarSet(const std::string& folder);
/// The first `train` training images of CifarSet `cifar`, the same number of each class, and all its test
/// images, as `<folder>/cifar10-<train>`.
std::string CifarPart(const std::string& cifar, const std::string& folder, int64_t train);

}  // namespace mtrun::trainers::testing

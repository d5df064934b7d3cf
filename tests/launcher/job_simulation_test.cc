// Many short lives of a job with faults (job_simulation.h). MTRUN_SEED replays one of them with its trace;
// MTRUN_NEW_SEEDS=1 (tools/test --full) draws others than the usual ones, which are the same each time, so
// that a failure is the fault of a change.
#include "tests/launcher/job_simulation.h"

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSchedules = 2000;  // instrumented code is ten times slower
#else
constexpr int kSchedules = 100'000;
#endif

JobSimulation::Setup SetupOf(uint64_t seed, bool trace) {
  JobSimulation::Setup setup;
  setup.trace = trace;
  setup.seed = seed;
  std::mt19937_64 random(seed ^ 0x5eed);
  setup.nodes = 2 + static_cast<int>(random() % 3);
  setup.services = 1 + static_cast<int>(random() % 2);
  setup.max_nodes = std::max(1, setup.nodes - static_cast<int>(random() % 2));
  setup.min_nodes = 1 + static_cast<int>(random() % static_cast<unsigned>(setup.max_nodes));
  setup.workers = 1 + static_cast<int>(random() % 2);
  setup.cooperative = random() % 4 != 0;
  setup.faults = static_cast<int>(random() % 5);
  setup.warm_up = setup.cooperative && random() % 2 == 0;
  return setup;
}

std::string TraceOf(uint64_t seed) {
  JobSimulation simulation(SetupOf(seed, true));
  simulation.Run();
  return simulation.Trace();
}

TEST(JobSimulation, EveryScheduleKeepsTheRulesAndFormsAgain) {
  const char* given = std::getenv("MTRUN_SEED");
  const bool draw = std::getenv("MTRUN_NEW_SEEDS") != nullptr;
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : draw ? RandomBits() >> 16 : 1;
  const int schedules = given != nullptr ? 1 : kSchedules;
  std::map<std::string, int> fired;
  size_t generations = 0;
  for (int i = 0; i < schedules; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    JobSimulation simulation(SetupOf(seed, false));
    const auto broken = simulation.Run();
    ASSERT_FALSE(broken.has_value()) << "MTRUN_SEED=" << seed << ": " << *broken << "\n" << TraceOf(seed);
    for (const auto& [fault, count] : simulation.fired()) fired[fault] += count;
    generations += simulation.generations();
  }
  std::cout << schedules << " schedules from MTRUN_SEED=" << first << ", " << generations << " generations";
  for (const auto& [fault, count] : fired) std::cout << ", " << fault << " " << count;
  std::cout << "\n";
  if (schedules < 100) return;
  for (const char* fault : JobSimulation::kFaults) EXPECT_GE(fired[fault], 10) << fault;
}

}  // namespace
}  // namespace mtrun::launcher

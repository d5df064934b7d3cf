// Runs many short jobs with faults (job_simulation.h). MTRUN_SEED replays one schedule with its trace, or
// MTRUN_SCHEDULES of them starting there. MTRUN_NEW_SEEDS=1 (tools/test --full) draws new seeds instead of
// the fixed ones, which make every failure the fault of a change. MTRUN_LOST_FILES=1: hosts may lose their
// saved state. MTRUN_NO_EXCUSES=1: cases that docs/protocol.md does not exclude are failures too.
#include "tests/launcher/job_simulation.h"

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSchedules = 1000;  // instrumented code is ten times slower
#else
constexpr int kSchedules = 50'000;
#endif

JobSimulation::Setup SetupOf(uint64_t seed, bool trace) {
  JobSimulation::Setup setup;
  setup.trace = trace;
  setup.seed = seed;
  std::mt19937_64 random(seed ^ 0x5eed);
  setup.nodes = 2 + static_cast<int>(random() % 3);
  setup.services = random() % 2 == 0 ? 1 : 2 + static_cast<int>(random() % 2);
  setup.max_nodes = std::max(1, setup.nodes - static_cast<int>(random() % 2));
  setup.min_nodes = 1 + static_cast<int>(random() % static_cast<unsigned>(setup.max_nodes));
  setup.workers = 1 + static_cast<int>(random() % 2);
  setup.cooperative = random() % 4 != 0;
  setup.faults = static_cast<int>(random() % 9);
  setup.firewall = setup.services == 1 && random() % 4 == 0;
  setup.warm_up = setup.cooperative && random() % 2 == 0;
  setup.lease = std::chrono::seconds(random() % 4 == 0 ? 5 : 2);
  setup.jobs = random() % 16 == 0 ? 2 : 1;
  setup.runs = random() % 16 == 0 ? 2 : 1;
  setup.forget_runs = setup.runs > 1 && random() % 2 == 0;
  // If another run follows, the run of a node that starts in between is ambiguous.
  if (setup.runs == 1 && random() % 2 == 0) setup.late_faults = 1 + static_cast<int>(random() % 3);
  setup.hosted = setup.services == 1 && setup.jobs == 1 && !setup.forget_runs && random() % 2 == 0;
  // Late nodes of a run whose services have ended with it.
  if (setup.hosted && seed % 8 == 0) setup.runs = 2, setup.late_faults = 0;
  setup.majority = setup.hosted && !setup.firewall && random() % 4 == 0;
  // The other services of a list, or of a majority, may be too few.
  const bool decides = setup.services == 1 && !setup.majority;
  setup.lose_one = decides && setup.late_faults > 0 && seed % 4 == 1;
  setup.ordinary_interval = std::chrono::milliseconds(seed % 2 == 0 ? 500 : 1000);
  // If the endpoint's host has lost its state, it may start another run. Nodes of that run are refused where
  // this one continues (seed 6084).
  const bool lose = std::getenv("MTRUN_LOST_FILES") != nullptr;
  setup.lose_file = setup.hosted && random() % 4 == 0 && lose;
  // Cases that docs/protocol.md does not exclude, and those in which no saved state is left.
  setup.excuse_untold = setup.services > 1 || setup.majority || setup.lose_file;
  setup.excuse_forgotten = std::getenv("MTRUN_NO_EXCUSES") == nullptr;
  return setup;
}

std::string Describe(const JobSimulation::Setup& setup) {
  return absl::StrCat(setup.nodes, " nodes, ", setup.min_nodes, " to ", setup.max_nodes, ", ", setup.services,
                      " services, ", setup.jobs, " jobs, ", setup.runs, " runs, lease ",
                      ToSeconds(setup.lease), " s", setup.cooperative ? ", cooperative" : "",
                      setup.warm_up ? ", warm" : "", setup.firewall ? ", firewall" : "",
                      setup.hosted ? ", hosted" : "", setup.majority ? ", majority" : "",
                      setup.lose_file ? ", file lost" : "");
}

std::string TraceOf(uint64_t seed) {
  JobSimulation simulation(SetupOf(seed, true));
  simulation.Run();
  return simulation.Trace();
}

/// `half`: 0 or 1, of the fixed schedules. The first half runs all schedules given by variables.
void TryHalf(uint64_t half) {
  const char* given = std::getenv("MTRUN_SEED");
  const bool draw = std::getenv("MTRUN_NEW_SEEDS") != nullptr;
  const char* many = std::getenv("MTRUN_SCHEDULES");
  const int schedules = many != nullptr ? std::atoi(many) : given != nullptr ? 1 : kSchedules;
  if (half > 0 && (given != nullptr || many != nullptr)) return;
  const uint64_t usual = draw ? RandomBits() >> 16 : 1 + half * kSchedules;
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
  std::map<std::string, int> fired;
  size_t generations = 0;
  for (int i = 0; i < schedules; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    JobSimulation simulation(SetupOf(seed, false));
    const auto broken = simulation.Run();
    ASSERT_FALSE(broken.has_value()) << "MTRUN_SEED=" << seed << ": " << *broken << "\n"
                                     << Describe(SetupOf(seed, false)) << "\n"
                                     << TraceOf(seed);
    for (const auto& [fault, count] : simulation.fired()) fired[fault] += count;
    generations += simulation.generations();
  }
  std::cout << schedules << " schedules from MTRUN_SEED=" << first << ", " << generations << " generations";
  for (const auto& [fault, count] : fired) std::cout << ", " << fault << " " << count;
  std::cout << "\n";
  if (schedules < 100) return;
  for (const char* fault : JobSimulation::kFaults) EXPECT_GE(fired[fault], 10) << fault;
  EXPECT_GE(fired[JobSimulation::kEvicted],
            draw ? 1 : 10);  // about 12 in 1000; occasionally fewer with other seeds
}

// Two tests, which run in parallel on two processors.
TEST(JobSimulation, SchedulesOfTheFirstHalfKeepTheRulesAndRegroup) { TryHalf(0); }
TEST(JobSimulation, SchedulesOfTheSecondHalfKeepTheRulesAndRegroup) { TryHalf(1); }

}  // namespace
}  // namespace mtrun::launcher

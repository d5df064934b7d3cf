// Runs random courses of simulated runs, longer and wilder than lifecycle_explore_test can enumerate. Any
// number of members die, or are away for longer than a lease and return with their memory. Disks are older or
// newer than memory; all nodes stop and restart in any order. Finally faults cease and the run must be
// completed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tests/support/program.h"
#include "tests/trainers/run/run_simulation.h"

namespace mtrun::trainers {
namespace {

using Phase = SimulatedMember::Phase;

class Storm {
 public:
  Storm(uint64_t seed, bool goes_back)
      : choose_(seed),
        members_(Below(3) + 2),
        run_({.steps = 3 + Below(6),
              .steps_per_epoch = 2 + Below(3),
              .save_steps = 1 + Below(3),
              .save_epochs = Below(2)},
             members_, /*own_folders=*/Below(2) == 0, goes_back) {}

  /// Runs the storm and returns the first property that is violated, or "".
  std::string Run() {
    for (int turn = 0, turns = 20 + Below(100); turn < turns && !IsOver(); ++turn) Turn(/*faults=*/true);
    for (int turn = 0; turn < 500 && !IsOver(); ++turn) Turn(/*faults=*/false);
    return !IsOver() ? "a run comes to its end once faults cease" : run_.offence();
  }
  /// Returns the ledgers of a finished run, in the format that tests/trainers/run/verify_simulated.py reads.
  std::string Ledgers(uint64_t seed) const {
    int run = 0;
    int64_t steps = 0;
    for (int i = 0; i < run_.size(); ++i) {
      if (run_.at(i).phase != Phase::kDone) continue;
      run = run_.at(i).state.run;
      steps = run_.at(i).state.position.steps;
    }
    nlohmann::json disks = nlohmann::json::array();
    for (const SimulatedDisk& disk : run_.disks()) {
      nlohmann::json lines = nlohmann::json::array();
      for (const SimulatedLine& line : disk.ledger) {
        if (line.run != run) continue;
        lines.push_back({{"rewind", line.rewind},
                         {"step", line.step},
                         {"generation", line.generation},
                         {"of", line.of},
                         {"membership", line.membership}});
      }
      disks.push_back(lines);
    }
    return nlohmann::json({{"seed", seed}, {"steps", steps}, {"disks", disks}}).dump();
  }
  std::string Describe() const {
    return absl::StrJoin(lines_, "\n") + "\n--\n" + absl::StrJoin(run_.Describe(), "\n");
  }

 private:
  int Below(int n) { return static_cast<int>(choose_() % static_cast<uint64_t>(n)); }
  bool Once(int in) { return Below(in) == 0; }

  bool IsOver() const {
    if (!run_.offence().empty()) return true;
    for (int i = 0; i < run_.size(); ++i)
      if (run_.at(i).phase == Phase::kDone) return true;
    return false;
  }

  void Say(const RunSimulation::Lines& lines) { lines_.insert(lines_.end(), lines.begin(), lines.end()); }

  void Turn(bool faults) {
    if (faults && Once(6)) return Fault();
    if (run_.CanComplete() && Once(2)) return Together(faults);
    const int i = Below(run_.size());
    if (run_.CanDecide(i)) return Say(run_.Decide(i, Once(2)));
    if (run_.CanBreak(i)) return Say(run_.Break(i));
    if (run_.CanWrite(i) && Once(2)) return Say(run_.Write(i));
    if (run_.CanComeBack(i) && Once(faults ? 8 : 1)) return Say(run_.ComeBack(i));
    if (run_.CanRevive(i) && Once(faults ? 4 : 1)) return Say(run_.Revive(i));
    if (!run_.CanForm(0) || !Once(3)) return;
    if (!faults || !Once(8)) return Say(run_.Form(0));
    const int dies = Below(run_.size());
    if (run_.at(dies).phase == Phase::kWaiting) Say(run_.FormBroken(0, dies));
  }

  void Fault() {
    const int i = Below(run_.size());
    if (Once(20)) {  // a power cut: the first to start begins alone
      for (int each = 0; each < run_.size(); ++each)
        if (run_.CanDie(each)) Say(run_.Die(each));
    } else if (Once(2)) {
      if (run_.CanDie(i)) Say(run_.Die(i));
    } else if (run_.CanGoAway(i)) {
      Say(run_.GoAway(i));
    }
  }

  void Together(bool faults) {
    std::vector<int> members;
    for (int i = 0; i < run_.size(); ++i)
      if (run_.at(i).phase == Phase::kTogether) members.push_back(i);
    RunSimulation::Votes votes;
    if (!faults || !Once(4)) return Say(run_.Complete(votes));
    const int hit = members[static_cast<size_t>(Below(static_cast<int>(members.size())))];
    const bool dies = Once(2);
    std::set<int> done;
    for (const int i : members)
      if (Once(2) && !(dies && i == hit)) done.insert(i);
    Say(dies ? run_.CompleteBroken(hit, done, votes) : run_.CompleteParted(hit, done, votes));
  }

  std::mt19937_64 choose_;
  int members_;
  RunSimulation run_;
  RunSimulation::Lines lines_;
};

uint64_t FirstSeed() {
  const char* seed = std::getenv("MTRUN_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

TEST(RunStorm, NothingSavedIsLostAndEveryLedgerIsWhole) {
  constexpr uint64_t kSchedules = 100'000;
  const uint64_t first = FirstSeed();
  for (uint64_t seed = first; seed < first + kSchedules; ++seed) {
    Storm storm(seed, /*goes_back=*/false);
    const std::string offence = storm.Run();
    ASSERT_EQ(offence, "") << "MTRUN_SEED=" << seed << "\n" << storm.Describe();
  }
}

TEST(RunStorm, RealVerifierProvesTheLedgersOfFinishedRuns) {
  constexpr uint64_t kSchedules = 1000;
  const support::TemporaryFolder folder;
  std::string runs;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kSchedules; ++seed) {
    Storm storm(seed, /*goes_back=*/false);
    ASSERT_EQ(storm.Run(), "") << "MTRUN_SEED=" << seed;
    runs += storm.Ledgers(seed) + "\n";
  }
  support::WriteText(folder.File("runs"), runs);
  support::Program verify(
      {"sh", "-c",
       absl::StrCat("exec python3 ", support::TestFile("trainers/run/verify_simulated.py"), " <",
                    folder.File("runs"))});
  EXPECT_EQ(verify.Wait(), 0) << verify.Text();
  EXPECT_EQ(verify.Text(), absl::StrCat(kSchedules, "\n"));
}

/// The former rules compare only live states, and a save deletes checkpoints that are ahead.
TEST(RunStorm, FormerRulesAreDetected) {
  std::set<std::string> offences;
  for (uint64_t seed = 1; seed <= 1000; ++seed) offences.insert(Storm(seed, /*goes_back=*/true).Run());
  EXPECT_TRUE(offences.contains("positions never go back"));
}

}  // namespace
}  // namespace mtrun::trainers

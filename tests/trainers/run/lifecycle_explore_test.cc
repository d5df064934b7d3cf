// Explores every course of small runs: all orders in which members decide, all votes, deaths at every moment
// (also in the middle of a collective and of a handover), members that are away for a time, checkpoints that
// reach the disk early, late or never, and newcomers.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/trainers/run/run_simulation.h"

namespace mtrun::trainers {
namespace {

using Phase = SimulatedMember::Phase;

struct Limits {
  int members = 2, deaths = 1, joins = 1, absences = 0;
  bool votes = true;  // votes to leave, and to admit newcomers
};

struct World {
  RunSimulation run;
  int deaths = 0, joins = 0, absences = 0;  // remaining numbers
  auto operator<=>(const World&) const = default;
};

std::vector<std::set<int>> SubsetsOf(const std::vector<int>& of) {
  std::vector<std::set<int>> all;
  for (int mask = 0; mask < 1 << of.size(); ++mask) {
    std::set<int> subset;
    for (size_t i = 0; i < of.size(); ++i) {
      if ((mask >> i & 1) != 0) subset.insert(of[i]);
    }
    all.push_back(std::move(subset));
  }
  return all;
}

std::vector<int> Those(const RunSimulation& run, Phase phase) {
  std::vector<int> found;
  for (int i = 0; i < run.size(); ++i) {
    if (run.at(i).phase == phase) found.push_back(i);
  }
  return found;
}

class Explorer {
 public:
  Explorer(const RunRules& rules, const Limits& limits, bool own_folders)
      : limits_(limits),
        begin_{RunSimulation(rules, limits.members, own_folders), limits.deaths, limits.joins,
               limits.absences} {}

  void Run() {
    open_.push_back({begin_, {}});
    while (!open_.empty() && !::testing::Test::HasFailure()) {
      const auto [world, how] = std::move(open_.back());
      open_.pop_back();
      if (!seen_.insert(world).second) continue;
      moves_ = 0;
      history_.push_back(how);
      Expand(world, history_.size() - 1);
      const bool over = world.run.Over();
      finished_ += over && !Those(world.run, Phase::kDone).empty() ? 1 : 0;
      stopped_ += over && !Those(world.run, Phase::kLeft).empty() ? 1 : 0;
      if (!over && moves_ == 0) Fail(world, how, "nobody can do anything");
    }
  }
  size_t worlds() const { return seen_.size(); }
  int finished() const { return finished_; }
  int stopped() const { return stopped_; }

 private:
  /// The last event, in the world that history_[before] led to.
  struct How {
    size_t before = 0;
    RunSimulation::Lines lines;
  };
  using Path = size_t;  // index into history_

  template <typename F>
  void Try(const World& from, Path path, bool counts, F&& happens) {
    World next = from;
    How how{path, happens(next)};
    if (counts) ++moves_;
    if (!next.run.offence().empty()) return Fail(next, how, next.run.offence());
    if (!seen_.contains(next)) open_.push_back({std::move(next), std::move(how)});
  }

  void Expand(const World& world, Path path) {
    for (int i = 0; i < world.run.size(); ++i) {
      if (world.run.CanDecide(i)) {
        Try(world, path, true, [i](World& w) { return w.run.Decide(i, false); });
        if (world.run.broken()) Try(world, path, true, [i](World& w) { return w.run.Decide(i, true); });
      }
      if (world.run.CanBreak(i)) Try(world, path, true, [i](World& w) { return w.run.Break(i); });
      if (world.run.CanWrite(i)) Try(world, path, false, [i](World& w) { return w.run.Write(i); });
      if (world.deaths > 0 && world.run.CanDie(i)) {
        Try(world, path, false, [i](World& w) {
          --w.deaths;
          return w.run.Die(i);
        });
      }
    }
    ExpandAbsences(world, path);
    if (world.run.CanComplete()) ExpandTogether(world, path);
    for (int joins = 0; joins <= world.joins; ++joins) {
      if (world.run.CanForm(joins)) ExpandForm(world, path, joins);
    }
  }

  void ExpandAbsences(const World& world, Path path) {
    for (int i = 0; i < world.run.size(); ++i) {
      if (world.run.CanComeBack(i)) Try(world, path, true, [i](World& w) { return w.run.ComeBack(i); });
      if (world.absences == 0 || !world.run.CanGoAway(i)) continue;
      Try(world, path, false, [i](World& w) {
        --w.absences;
        return w.run.GoAway(i);
      });
    }
  }

  void ExpandTogether(const World& world, Path path) {
    const std::vector<int> members = Those(world.run, Phase::kTogether);
    const bool step = world.run.at(members.front()).decision.action == Action::kStep && limits_.votes;
    for (const std::set<int>& leave : step ? SubsetsOf(members) : std::vector<std::set<int>>{{}}) {
      for (const bool regroup : step ? std::vector<bool>{false, true} : std::vector<bool>{false}) {
        const RunSimulation::Votes votes{leave, regroup};
        Try(world, path, true, [&](World& w) { return w.run.Complete(votes); });
        for (const int goes : members) {
          if (world.deaths > 0) ExpandBroken(world, path, members, goes, votes);
          if (world.absences > 0) ExpandParted(world, path, members, goes, votes);
        }
      }
    }
  }

  void ExpandBroken(const World& world, Path path, std::vector<int> others, int dies,
                    const RunSimulation::Votes& votes) {
    std::erase(others, dies);
    for (const std::set<int>& done : SubsetsOf(others)) {
      Try(world, path, false, [&](World& w) {
        --w.deaths;
        return w.run.CompleteBroken(dies, done, votes);
      });
    }
  }

  void ExpandParted(const World& world, Path path, const std::vector<int>& members, int goes,
                    const RunSimulation::Votes& votes) {
    for (const std::set<int>& done : SubsetsOf(members)) {
      Try(world, path, false, [&](World& w) {
        --w.absences;
        return w.run.CompleteParted(goes, done, votes);
      });
    }
  }

  void ExpandForm(const World& world, Path path, int joins) {
    Try(world, path, joins == 0, [joins](World& w) {
      w.joins -= joins;
      return w.run.Form(joins);
    });
    for (int dies = 0; world.deaths > 0 && dies < world.run.size(); ++dies) {
      const Phase phase = world.run.at(dies).phase;
      if (phase != Phase::kWaiting && phase != Phase::kDone) continue;
      Try(world, path, false, [joins, dies](World& w) {
        --w.deaths;
        w.joins -= joins;
        return w.run.FormBroken(joins, dies);
      });
    }
  }

  void Fail(const World& world, const How& how, const std::string& why) {
    std::vector<std::string> backwards(how.lines.rbegin(), how.lines.rend());
    for (size_t at = how.before; at != 0; at = history_[at].before)
      backwards.insert(backwards.end(), history_[at].lines.rbegin(), history_[at].lines.rend());
    std::reverse(backwards.begin(), backwards.end());
    ADD_FAILURE() << why << "\n"
                  << absl::StrJoin(backwards, "\n") << "\n--\n"
                  << absl::StrJoin(world.run.Describe(), "\n");
  }

  const Limits limits_;
  const World begin_;
  std::vector<std::pair<World, How>> open_;
  std::vector<How> history_;
  std::set<World> seen_;
  int moves_ = 0, finished_ = 0, stopped_ = 0;
};

struct Case {
  const char* name;
  RunRules rules;
  Limits limits;
  bool own_folders = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class LifecycleExplore : public ::testing::TestWithParam<Case> {};

TEST_P(LifecycleExplore, AllPropertiesHoldInEveryCourse) {
  const Case& c = GetParam();
  Explorer explorer(c.rules, c.limits, c.own_folders);
  explorer.Run();
  EXPECT_GT(explorer.finished(), 0) << "no course came to the end";
  EXPECT_TRUE(!c.limits.votes || explorer.stopped() > 0) << "in no course all left";
  RecordProperty("worlds", static_cast<int>(explorer.worlds()));
  std::printf("%s: %zu worlds\n", c.name, explorer.worlds());
}

constexpr RunRules kShort{.steps = 2, .steps_per_epoch = 2, .save_steps = 1, .save_epochs = 1};
constexpr RunRules kLonger{.steps = 3, .steps_per_epoch = 2, .save_steps = 2, .save_epochs = 1};
constexpr RunRules kUnsaved{.steps = 3, .steps_per_epoch = 3};
constexpr RunRules kUnsavedShort{.steps = 2, .steps_per_epoch = 2};

INSTANTIATE_TEST_SUITE_P(
    Runs, LifecycleExplore,
    ::testing::Values(
        Case{"one", kLonger, {.members = 1, .deaths = 1, .joins = 1}},
        Case{"two", kShort, {.members = 2, .deaths = 1, .joins = 1}},
        Case{"two_longer", kLonger, {.members = 2, .deaths = 1, .joins = 0}},
        Case{"two_unsaved", kUnsaved, {.members = 2, .deaths = 2, .joins = 1, .votes = false}},
        Case{"two_that_die", kShort, {.members = 2, .deaths = 3, .joins = 1, .votes = false}},
        Case{"three", kShort, {.members = 3, .deaths = 1, .joins = 0}},
        Case{"three_that_die", kShort, {.members = 3, .deaths = 2, .joins = 0, .votes = false}},
        Case{"two_that_go_away",
             kShort,
             {.members = 2, .deaths = 1, .joins = 0, .absences = 2, .votes = false}},
        Case{"three_that_go_away",
             kShort,
             {.members = 3, .deaths = 1, .joins = 0, .absences = 1, .votes = false}},
        Case{"two_unsaved_that_go_away",
             kUnsavedShort,
             {.members = 2, .deaths = 2, .joins = 1, .absences = 1, .votes = false}},
        Case{"two_folders_that_go_away",
             kShort,
             {.members = 2, .deaths = 1, .joins = 0, .absences = 1, .votes = false},
             true},
        Case{"two_folders", kShort, {.members = 2, .deaths = 1, .joins = 0}, true},
        Case{"three_folders", kShort, {.members = 3, .deaths = 1, .joins = 0, .votes = false}, true}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace mtrun::trainers

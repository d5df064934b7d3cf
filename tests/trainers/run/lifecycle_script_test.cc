// Replays golden scripts (tests/support/golden_script.h): testdata/lifecycle_*.txt.
//   run steps=6 epoch=3 members=2 [save_steps=2] [save_epochs=1] [own_folders]     the first command
//   form [joins=1] [dies=a]     forms a generation, or a member dies while the states are handed over
//   go                          every member decides until it waits for the others, or leaves
//   together [leave=ab] [regroup]          completes what they wait for, with these votes
//   together dies=a done=b                 likewise, but a member dies; those in `done` have the result
//   next [leave=ab] [regroup]              go, together, go
//   until STEP                  repeats `next` until STEP steps are finished
//   die a     break a b     write a     knows a (decides once, knowing that the generation is over)
//   state
#include <algorithm>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "tests/support/golden_script.h"
#include "tests/trainers/run/run_simulation.h"

namespace mtrun::trainers {
namespace {

using Lines = RunSimulation::Lines;
using support::ScriptCommand;

/// Returns the members that an option names, one letter each.
std::set<int> MembersOf(const ScriptCommand& c, const std::string& key) {
  std::set<int> members;
  for (const char letter : c.Text(key, "")) members.insert(letter - 'a');
  return members;
}

class Interpreter {
 public:
  Lines Run(const std::string& line) {
    const ScriptCommand c(line);
    if (c.name == "run") return Begin(c);
    EXPECT_TRUE(run_) << "the first command must be `run`";
    if (c.name == "form") return Form(c);
    if (c.name == "go") return Go();
    if (c.name == "together") return Together(c);
    if (c.name == "next") return Next(c);
    if (c.name == "until") return Until(c);
    if (c.name == "state") return run_->Describe();
    return OnEach(c);
  }
  std::string offence() const { return run_ ? run_->offence() : ""; }

 private:
  Lines Begin(const ScriptCommand& c) {
    const RunRules rules{.steps = c.Int("steps", 2),
                         .steps_per_epoch = c.Int("epoch", 2),
                         .save_steps = c.Int("save_steps", 0),
                         .save_epochs = c.Int("save_epochs", 0)};
    run_ = std::make_unique<RunSimulation>(rules, c.Int("members", 1), c.Has("own_folders"));
    return {};
  }
  Lines Form(const ScriptCommand& c) {
    const int joins = c.Int("joins", 0);
    EXPECT_TRUE(run_->CanForm(joins));
    const std::set<int> dies = MembersOf(c, "dies");
    return dies.empty() ? run_->Form(joins) : run_->FormBroken(joins, *dies.begin());
  }
  Lines Go() {
    Lines lines;
    for (int i = 0; i < run_->size(); ++i) {
      while (run_->CanDecide(i)) Add(run_->Decide(i, false), lines);
    }
    return lines;
  }
  Lines Together(const ScriptCommand& c) {
    EXPECT_TRUE(run_->CanComplete());
    const RunSimulation::Votes votes{MembersOf(c, "leave"), c.Has("regroup")};
    const std::set<int> dies = MembersOf(c, "dies");
    return dies.empty() ? run_->Complete(votes)
                        : run_->CompleteBroken(*dies.begin(), MembersOf(c, "done"), votes);
  }
  Lines Next(const ScriptCommand& c) {
    Lines lines = Go();
    Add(Together(c), lines);
    Add(Go(), lines);
    return lines;
  }
  Lines Until(const ScriptCommand& c) {
    int64_t steps = 0;
    EXPECT_TRUE(absl::SimpleAtoi(c.words.at(0), &steps));
    Lines lines = Go();
    while (run_->CanComplete() && Steps() < steps) {
      Add(run_->Complete({}), lines);
      Add(Go(), lines);
    }
    return lines;
  }
  int64_t Steps() const {
    int64_t steps = 0;
    for (int i = 0; i < run_->size(); ++i) steps = std::max(steps, run_->at(i).state.position.steps);
    return steps;
  }
  Lines OnEach(const ScriptCommand& c) {
    Lines lines;
    for (const std::string& word : c.words) {
      const int member = word.at(0) - 'a';
      if (c.name == "die") Add(run_->Die(member), lines);
      if (c.name == "break") Add(run_->Break(member), lines);
      if (c.name == "write") Add(run_->Write(member), lines);
      if (c.name == "knows") Add(run_->Decide(member, true), lines);
    }
    return lines;
  }
  static void Add(const Lines& more, Lines& lines) { lines.insert(lines.end(), more.begin(), more.end()); }

  std::unique_ptr<RunSimulation> run_;
};

std::string Replay(const std::string& script) {
  Interpreter interpreter;
  return support::ReplayTraces(script, [&interpreter](const std::string& line) {
    Lines lines = interpreter.Run(line);
    EXPECT_EQ(interpreter.offence(), "") << line;
    return lines;
  });
}

TEST(LifecycleScript, MatchesTheScripts) {
  support::ExpectScripts("tests/trainers/run/testdata", "lifecycle_", 10, Replay);
}

}  // namespace
}  // namespace mtrun::trainers

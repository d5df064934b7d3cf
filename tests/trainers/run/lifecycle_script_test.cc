// Golden scripts: testdata/lifecycle_*.txt hold commands, `----` and what happens then. MTRUN_REWRITE=1
// writes what happens instead.
//   run steps=6 epoch=3 members=2 [save_steps=2] [save_epochs=1] [own_folders]     the first command
//   form [joins=1] [dies=a]     a generation begins, or a member dies while the states are handed over
//   go                          every member decides until it waits for the others, or goes
//   together [leave=ab] [regroup]          what they wait for is done, with these votes
//   together dies=a done=b                 but a member dies; those in `done` have its result
//   next [leave=ab] [regroup]              go, together, go
//   until STEP                  `next` until so many steps are finished
//   die a     break a b     write a     knows a (decides once, having heard that the generation is over)
//   state
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "tests/trainers/run/run_simulation.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using Lines = RunSimulation::Lines;

struct Command {
  std::string name;
  std::vector<std::string> words;
  std::map<std::string, std::string> options;

  explicit Command(const std::string& line) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ', absl::SkipEmpty());
    for (const std::string& part : parts) {
      const size_t equals = part.find('=');
      if (name.empty()) {
        name = part;
      } else if (equals != std::string::npos) {
        options[part.substr(0, equals)] = part.substr(equals + 1);
      } else {
        words.push_back(part);
      }
    }
  }
  bool Has(const std::string& word) const { return std::count(words.begin(), words.end(), word) > 0; }
  int Int(const std::string& key, int otherwise) const {
    int value = otherwise;
    const auto found = options.find(key);
    EXPECT_TRUE(found == options.end() || absl::SimpleAtoi(found->second, &value)) << key;
    return value;
  }
  std::set<int> Members(const std::string& key) const {
    std::set<int> members;
    if (const auto found = options.find(key); found != options.end()) {
      for (const char letter : found->second) members.insert(letter - 'a');
    }
    return members;
  }
};

class Interpreter {
 public:
  Lines Run(const std::string& line) {
    const Command c(line);
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
  Lines Begin(const Command& c) {
    const RunRules rules{.steps = c.Int("steps", 2),
                         .steps_per_epoch = c.Int("epoch", 2),
                         .save_steps = c.Int("save_steps", 0),
                         .save_epochs = c.Int("save_epochs", 0)};
    run_ = std::make_unique<RunSimulation>(rules, c.Int("members", 1), c.Has("own_folders"));
    return {};
  }
  Lines Form(const Command& c) {
    const int joins = c.Int("joins", 0);
    EXPECT_TRUE(run_->CanForm(joins));
    const std::set<int> dies = c.Members("dies");
    return dies.empty() ? run_->Form(joins) : run_->FormBroken(joins, *dies.begin());
  }
  Lines Go() {
    Lines lines;
    for (int i = 0; i < run_->size(); ++i) {
      while (run_->CanDecide(i)) Add(run_->Decide(i, false), lines);
    }
    return lines;
  }
  Lines Together(const Command& c) {
    EXPECT_TRUE(run_->CanComplete());
    const RunSimulation::Votes votes{c.Members("leave"), c.Has("regroup")};
    const std::set<int> dies = c.Members("dies");
    return dies.empty() ? run_->Complete(votes)
                        : run_->CompleteBroken(*dies.begin(), c.Members("done"), votes);
  }
  Lines Next(const Command& c) {
    Lines lines = Go();
    Add(Together(c), lines);
    Add(Go(), lines);
    return lines;
  }
  Lines Until(const Command& c) {
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
  Lines OnEach(const Command& c) {
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

fs::path Folder() { return fs::path(std::getenv("MT_SOURCE_DIR")) / "tests/trainers/run/testdata"; }

std::vector<std::string> Scripts() {
  std::vector<std::string> names;
  if (std::getenv("MT_SOURCE_DIR") == nullptr) return names;
  for (const auto& entry : fs::directory_iterator(Folder())) {
    const std::string name = entry.path().stem();
    if (absl::StartsWith(name, "lifecycle_")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The file as it would be if what happens now were right.
std::string Replay(const std::string& text) {
  Interpreter interpreter;
  std::vector<std::string> out;
  bool expected = false;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (line == "----") expected = true;
    if (line.empty()) {
      if (!out.empty() && !out.back().empty()) out.emplace_back();
      expected = false;
    }
    if (line.empty() || expected) continue;
    out.push_back(line);
    if (line[0] == '#') continue;
    const Lines lines = interpreter.Run(line);
    if (!lines.empty()) out.emplace_back("----");
    out.insert(out.end(), lines.begin(), lines.end());
    EXPECT_EQ(interpreter.offence(), "") << line;
  }
  return absl::StrJoin(out, "\n");
}

TEST(LifecycleScript, HappensAsWritten) {
  const std::vector<std::string> scripts = Scripts();
  EXPECT_FALSE(scripts.empty()) << "MT_SOURCE_DIR must name the source folder";
  for (const std::string& name : scripts) {
    const std::string path = Folder() / (name + ".txt");
    const absl::StatusOr<std::string> text = ReadFile(path);
    ASSERT_TRUE(text.ok()) << text.status();
    const std::string now = Replay(*text);
    if (std::getenv("MTRUN_REWRITE") != nullptr) {
      std::ofstream(path) << now;
    } else {
      EXPECT_EQ(now, *text) << name << ": MTRUN_REWRITE=1 writes what happens now";
    }
  }
}

}  // namespace
}  // namespace mtrun::trainers

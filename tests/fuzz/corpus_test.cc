// Replays every kept input of every fuzz target (tools/fuzz_corpus adds to them) as a regression test. A crash
// names its input in the trace.
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "datasets/files/archive_reader.h"
#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

constexpr int64_t kMaxInput = 1 << 20;

struct Target {
  const char* name;
  void (*run)(std::string_view bytes);
};

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

/// Returns a path below tests/fuzz of the sources.
std::string SourcePath(const std::string& name) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  MT_CHECK(source != nullptr) << "set MT_SOURCE_DIR to the root of the sources";
  return absl::StrCat(source, "/tests/fuzz/", name);
}

struct Input {
  std::string name, bytes;
};

/// Returns the kept inputs of a target.
absl::StatusOr<std::vector<Input>> InputsOf(const Target& target) {
  MT_ASSIGN_OR_RETURN(
      auto archive, datasets::ArchiveReader::Open(SourcePath(absl::StrCat("corpus/", target.name, ".tar"))));
  std::vector<Input> inputs;
  while (true) {
    MT_ASSIGN_OR_RETURN(const bool more, archive.Next());
    if (!more) return inputs;
    MT_ASSIGN_OR_RETURN(std::string bytes, archive.Read(kMaxInput));
    inputs.push_back({archive.name(), std::move(bytes)});
  }
}

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, InputsDoNotCrash) {
  const auto inputs = InputsOf(GetParam());
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  for (const Input& input : *inputs) {
    SCOPED_TRACE(input.name);
    GetParam().run(input.bytes);
    // Truncated at many places, the most common fault of files and messages.
    for (size_t size = 0; size < input.bytes.size(); size += 1 + input.bytes.size() / 24)
      GetParam().run(std::string_view(input.bytes).substr(0, size));
  }
  RecordProperty("inputs", static_cast<int>(inputs->size()));
  EXPECT_GE(inputs->size(), 5U);
}

/// Runs the kept inputs of a target and returns the invariants that they reach. One of them can be broken.
std::set<std::string> Reached(const Target& target, const std::string& broken = "") {
  InvariantWatch watch = {.reached = {}, .broken = broken};
  const WatchInvariants watching(watch);
  const auto inputs = InputsOf(target);
  MT_CHECK(inputs.ok()) << inputs.status();
  for (const Input& input : *inputs) target.run(input.bytes);
  return watch.reached;
}

TEST_P(Corpus, EachInvariantThatInputsReachEndsTheProcessIfItDoesNotHold) {
  const std::set<std::string> reached = Reached(GetParam());
  ASSERT_FALSE(reached.empty()) << "this target holds nothing to be true";
  for (const std::string& place : reached) EXPECT_DEATH(Reached(GetParam(), place), place);
}

const Target kTargets[] = {Target{"messages", FuzzMessages},
                           Target{"channel", FuzzChannel},
                           Target{"state_machine", FuzzStateMachine},
                           Target{"settings", FuzzSettings},
                           Target{"safetensors", FuzzSafetensors},
                           Target{"pickle", FuzzPickle},
                           Target{"error_file", FuzzErrorFile},
                           Target{"greeting", FuzzGreeting},
                           Target{"frames", FuzzFrames},
                           Target{"segment", FuzzSegment},
                           Target{"tar", FuzzTar},
                           Target{"archive", FuzzArchive},
                           Target{"sources", FuzzSources},
                           Target{"idx", FuzzIdx},
                           Target{"images", FuzzImages},
                           Target{"cifar", FuzzCifar},
                           Target{"index", FuzzIndex},
                           Target{"checkpoint", FuzzCheckpoint},
                           Target{"serving", FuzzServing},
                           Target{"report", FuzzReport},
                           Target{"tcp_store", FuzzTcpStore},
                           Target{"hosts", FuzzHosts},
                           Target{"pmi", FuzzPmi},
                           Target{"page", FuzzPage}};

INSTANTIATE_TEST_SUITE_P(Targets, Corpus, testing::ValuesIn(kTargets),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(InvariantsTest, InputsReachEachOne) {
  std::map<std::string, std::set<std::string>> reached;  // by file
  for (const Target& target : kTargets) {
    for (const std::string& place : Reached(target)) reached[place.substr(0, place.find(':'))].insert(place);
  }
  for (const auto& [file, places] : reached) {
    std::ifstream source(SourcePath(file));
    std::vector<int> lines;
    std::string line;
    for (int number = 1; std::getline(source, line); ++number) {
      if (absl::StrContains(line, "MT_HOLDS(")) lines.push_back(number);
    }
    EXPECT_EQ(places.size(), lines.size())
        << file << " has invariants in lines " << absl::StrJoin(lines, ", ") << "; reached are "
        << absl::StrJoin(places, ", ");
  }
}

}  // namespace
}  // namespace mtrun::fuzz

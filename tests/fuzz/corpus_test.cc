// Every kept input of every fuzz target: what was found once stays found. A crash names its file in the
// trace.
#include <filesystem>
#include <iostream>

#include "base/posix.h"
#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_targets.h"

namespace mtrun::fuzz {
namespace {

namespace fs = std::filesystem;

struct Target {
  const char* name;
  void (*run)(std::string_view bytes);
};

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, IsTaken) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "set MT_SOURCE_DIR to the root of the sources";
  size_t inputs = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(source) / "tests/fuzz/corpus" / GetParam().name)) {
    const auto bytes = ReadFile(entry.path().string());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    SCOPED_TRACE(entry.path().filename().string());
    GetParam().run(*bytes);
    // Cut at many places, which is how files and messages usually go wrong.
    for (size_t size = 0; size < bytes->size(); size += 1 + bytes->size() / 24)
      GetParam().run(std::string_view(*bytes).substr(0, size));
    ++inputs;
  }
  EXPECT_GE(inputs, 5u);
}

INSTANTIATE_TEST_SUITE_P(
    Targets, Corpus,
    testing::Values(Target{"messages", FuzzMessages}, Target{"channel", FuzzChannel},
                    Target{"state_machine", FuzzStateMachine}, Target{"settings", FuzzSettings},
                    Target{"safetensors", FuzzSafetensors}, Target{"pickle", FuzzPickle},
                    Target{"error_file", FuzzErrorFile}, Target{"greeting", FuzzGreeting},
                    Target{"frames", FuzzFrames}, Target{"segment", FuzzSegment}, Target{"tar", FuzzTar},
                    Target{"archive", FuzzArchive}, Target{"sources", FuzzSources}, Target{"idx", FuzzIdx},
                    Target{"images", FuzzImages}, Target{"cifar", FuzzCifar}, Target{"index", FuzzIndex},
                    Target{"checkpoint", FuzzCheckpoint}, Target{"serving", FuzzServing},
                    Target{"report", FuzzReport}, Target{"tcp_store", FuzzTcpStore},
                    Target{"hosts", FuzzHosts}, Target{"pmi", FuzzPmi}, Target{"page", FuzzPage}),
    [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace mtrun::fuzz

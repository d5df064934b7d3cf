// Replays every kept input of every fuzz target (tools/fuzz_corpus adds to them) as a regression test. A crash
// names its input in the trace.
#include <iostream>

#include "datasets/files/archive_reader.h"
#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_targets.h"

namespace mtrun::fuzz {
namespace {

constexpr int64_t kMaxInput = 1 << 20;

struct Target {
  const char* name;
  void (*run)(std::string_view bytes);
};

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

class Corpus : public testing::TestWithParam<Target> {};

TEST_P(Corpus, InputsDoNotCrash) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "set MT_SOURCE_DIR to the root of the sources";
  const std::string path = std::string(source) + "/tests/fuzz/corpus/" + GetParam().name + ".tar";
  auto archive = datasets::ArchiveReader::Open(path);
  ASSERT_TRUE(archive.ok()) << archive.status();
  int inputs = 0;
  for (auto more = archive->Next(); !more.ok() || *more; more = archive->Next()) {
    ASSERT_TRUE(more.ok()) << more.status();
    const auto bytes = archive->Read(kMaxInput);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    SCOPED_TRACE(archive->name());
    GetParam().run(*bytes);
    // Truncated at many places, the most common fault of files and messages.
    for (size_t size = 0; size < bytes->size(); size += 1 + bytes->size() / 24)
      GetParam().run(std::string_view(*bytes).substr(0, size));
    ++inputs;
  }
  RecordProperty("inputs", inputs);
  EXPECT_GE(inputs, 5);
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

// --predict and an exported model.py on every kind of image file that import takes, made by
// tests/testdata/kinds/make_kinds.py.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "datasets/packed/index.h"
#include "nlohmann/json.hpp"
#include "tests/support/peers_python.h"
#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using support::ReadText;
using ::testing::HasSubstr;

constexpr support::Seconds kLong{180};

constexpr char kCompareKinds[] = R"(
import json, os, sys
sys.path.insert(0, sys.argv[1])
import model, torch
from PIL import Image
network = model.load()
kinds = {}
for name in ('kinds.json', 'turned.json'):
    for kind in json.load(open(os.path.join(sys.argv[3], name))):
        kinds[kind['file']] = kind
seen, refused, read_only_here = 0, 0, 0
for line in open(sys.argv[2]):
    line = json.loads(line)
    kind = kinds.pop(os.path.basename(line['file']), None)
    if kind is None:
        continue  # an expected picture
    if kind['expected'] is None:
        assert line['error'] == kind['refused'], line
        refused += 1
        continue
    assert 'error' not in line, line
    if kind['pillow'] not in ('same', 'turned'):
        read_only_here += 1
        continue
    with torch.no_grad(), Image.open(line['file']) as image:
        got = network(model.preprocess(image)).double().softmax(1)[0]
    for top in line['top']:
        off = abs(float(got[model.CONFIG['classes'].index(top['class'])]) - top['probability'])
        assert off < float(sys.argv[4]), (line, off)
    seen += 1
assert {kind['kind'].split(',')[0] for kind in kinds.values()} == {'GIF', 'ICO'}, kinds  # not listed by their names
print('same', seen, 'refused', refused, 'only here', read_only_here)
)";

class PredictKindsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (support::PeersPython().empty()) GTEST_SKIP() << "no Python with PyTorch (tools/setup --peers)";
  }
  std::string Python(const std::vector<std::string>& args) {
    std::vector<std::string> words = {support::PeersPython(), "-B", "-W", "ignore"};
    words.insert(words.end(), args.begin(), args.end());
    support::Program python(words, testing::NoLauncher());
    EXPECT_EQ(python.Wait(kLong), 0) << python.Text();
    return python.Text();
  }

  const support::TemporaryFolder folder_;
};

/// Images of 22x37 are used as they are, so that the same pixels give the same probabilities. Turned ones are
/// cut and enlarged, which may differ by one level.
TEST_F(PredictKindsTest, ModelPySeesWhatPredictSees) {
  const std::string kinds = folder_.File("kinds"), lines = folder_.File("lines.jsonl");
  Python({support::TestFile("testdata/kinds/make_kinds.py"), kinds});
  fs::create_directory(kinds + "/.hidden");
  for (const char* hidden : {"/.hidden.png", "/.hidden/a.png"})
    fs::copy(kinds + "/png_rgb.png", kinds + hidden);
  std::ofstream(folder_.File("compare.py")) << kCompareKinds;
  const std::string data = testing::WritePackedSet(
      folder_.path(), "data", {.height = 22, .width = 37, .train = 16, .test = 8}, testing::LearnablePixel);
  const std::string index = ReadText(data + "/index.json");
  for (const std::string rule : {datasets::kTurnedUpright, datasets::kAsStored}) {
    SCOPED_TRACE(rule);
    std::ofstream(data + "/index.json") << absl::StrReplaceAll(
        index, {{"\"format\":", absl::StrCat("\"orientation\": \"", rule, "\", \"format\":")}});
    const std::string run = folder_.File(rule), out = run + "-export";
    testing::Run("resnet18", 1,
                 {"--data", data, "--model_folder", run, "--max_steps", "2", "--batch_size", "4",
                  "--image_size", "64"},
                 kLong);
    testing::Run("resnet18", 1, {"--export", out, "--weights_of", run}, kLong);
    EXPECT_EQ(json::parse(ReadText(out + "/model.json"))["upright"], rule == datasets::kTurnedUpright);
    testing::Run("resnet18", 1, {"--weights_of", run, "--out", lines, "--top_k", "10", "--predict", kinds},
                 kLong);
    EXPECT_EQ(ReadText(lines).find("/.hidden"), std::string::npos);
    EXPECT_THAT(Python({folder_.File("compare.py"), out, lines, kinds, "1e-4"}), HasSubstr("same"));
  }
}

}  // namespace
}  // namespace mtrun::trainers

// Today's code reads files of earlier releases (tests/testdata/formats).
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "datasets/images/image_file.h"
#include "datasets/packed/packed.h"
#include "datasets/packed/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/support/program.h"
#include "tests/support/releases.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/run/records/run_progress.h"
#include "trainers/run/rules/options.h"

namespace mtrun::trainers {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

class EarlierFormats : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string File(const std::string& name) {
    return support::TestFile("testdata/formats/" + GetParam() + "/" + name);
  }
  /// Returns the lines of a file of JSON objects.
  static std::vector<json> Lines(const std::string& name) {
    std::vector<json> lines;
    const std::string text = support::ReadText(File(name));
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
      lines.push_back(json::parse(line));
    return lines;
  }
  static std::set<std::string> Keys(const json& object) {
    std::set<std::string> keys;
    for (const auto& item : object.items()) keys.insert(item.key());
    return keys;
  }
};

TEST_P(EarlierFormats, PackedSetOpens) {
  const auto train = datasets::PackedSplit::Open(File("data"), "train", /*verify=*/true);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->size(), 16);
  EXPECT_EQ(train->height(), 28);
  for (int64_t i = 0; i < train->size(); ++i) EXPECT_EQ(train->label(i), i % 4);
  const auto test = datasets::PackedSplit::Open(File("data"), "test", /*verify=*/true);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(test->size(), 4);
}

/// Release 0.1.0 had only pixels.
TEST_P(EarlierFormats, PackedSetOfEncodedImagesOpensAndDecodes) {
  ASSERT_EQ(std::filesystem::exists(File("photos")), GetParam() != "0.1.0");
  if (GetParam() == "0.1.0") return;
  const std::map<std::string, int64_t> sizes = {{"train", 6}, {"val", 2}, {"test", 2}};
  for (const auto& [name, size] : sizes) {
    SCOPED_TRACE(name);
    const auto split = datasets::PackedSplit::Open(File("photos"), name, /*verify=*/true);
    ASSERT_TRUE(split.ok()) << split.status();
    EXPECT_TRUE(split->encoded());
    EXPECT_THAT(split->class_names(), ElementsAre("bird", "cat"));
    ASSERT_EQ(split->size(), size);
    for (int64_t i = 0; i < size; ++i) {
      EXPECT_EQ(split->label(i), i < size / 2 ? 0 : 1);
      const auto image = datasets::DecodeImage(split->record(i), split->decode_limits(i));
      ASSERT_TRUE(image.ok()) << image.status();
      EXPECT_EQ(image->size.height, split->image_size(i).height);
    }
  }
}

TEST_P(EarlierFormats, CheckpointIsIntactAndItsStateIsRead) {
  const auto search = checkpoints::FindNewest(checkpoints::RealFiles(), File("run"));
  ASSERT_TRUE(search.ok() && search->newest) << search.status();
  EXPECT_EQ(search->newest->step, 10);
  const auto state = checkpoints::DecodeRunState(search->newest->state);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->position, (checkpoints::Position{2, 10, true}));
  EXPECT_EQ(state->identity.at("global_batch"), "4");
  const auto progress = RunProgressFromJson(state->progress);
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(progress->samples, 40);
  EXPECT_EQ(progress->history.size(), 3u);
}

TEST_P(EarlierFormats, WeightsAreSafetensors) {
  const std::string text = support::ReadText(File("run/model.safetensors"));
  const auto header =
      datasets::ParseSafetensorsHeader({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  ASSERT_TRUE(header.ok()) << header.status();
  int64_t parameters = 0;
  for (const datasets::TensorInfo& tensor : header->tensors)
    parameters += tensor.bytes() / datasets::DTypeSize(tensor.dtype);
  EXPECT_EQ(parameters, 9986);
  EXPECT_EQ(header->metadata.at("program"), "cnnA");
}

TEST_P(EarlierFormats, LedgerIsVerified) {
  const std::map<std::string, std::string> data = {
      {"run", "data"}, {"run_diffusion", "data"}, {"run_streams", "photos"}};
  for (const auto& [run, set] : data) {
    if (GetParam() == "0.1.0" && run == "run_streams") continue;  // it had one order
    std::vector<std::string> args = {"python3", support::TestFile("../tools/verify_ledger"), File(run),
                                     "--data", File(set)};
    if (GetParam() == "0.1.0") args.push_back("--partial");  // its ledger proves less
    support::Program verify(args);
    EXPECT_EQ(verify.Wait(), 0) << verify.Text();
  }
}

TEST_P(EarlierFormats, SettingsAreRead) {
  Settings settings = MakeSettings("cnnA", {});
  ASSERT_TRUE(ReadSettings("cnnA", {"--config", File("run/config.yaml")}, {}, settings).ok());
  const auto options = MakeOptions(/*configured_world=*/1, settings);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->plan, (datasets::BatchPlan{4, 2}));
  EXPECT_EQ(options->optimizer.momentum, 0.9);
}

TEST_P(EarlierFormats, MetricsHaveTheirFields) {
  // A line is of the kind whose name is among its keys.
  const std::map<std::string, std::set<std::string>> fields = {
      {"step", {"epoch", "loss", "lr", "samples", "seconds"}},
      {"eval", {"steps", "train_loss", "test_loss", "test_accuracy", "seconds"}},
      {"regroup", {"world", "steps", "assign", "connect", "state", "first_step"}},
      {"save", {"bytes", "stall"}},
      {"generation", {"steps", "world", "members", "why", "time"}}};
  int steps = 0;
  for (const json& line : Lines("run/metrics.jsonl")) {
    SCOPED_TRACE(line.dump());
    if (line.contains("step")) {
      EXPECT_EQ(line["step"], steps++);
    }
    int kinds = 0;
    for (const auto& [kind, keys] : fields) {
      if (!line.contains(kind)) continue;
      ++kinds;
      EXPECT_THAT(Keys(line), IsSupersetOf(keys));
    }
    EXPECT_EQ(kinds, 1);
  }
  EXPECT_EQ(steps, 10);
}

TEST_P(EarlierFormats, EventsHaveTheirFields) {
  const std::map<std::string, std::set<std::string>> fields = {
      {"rendezvous_connected", {}},
      {"workers_started", {"generation", "local_ranks", "workers", "world_size", "restart_count"}},
      {"generation_assigned", {"generation", "nodes", "world_size"}},
      {"worker_exited", {"local_rank", "pid"}},
      {"generation_dissolved", {"generation", "reason", "restart_count"}},
      {"job_ended", {"success", "exit_code", "reason"}},
      {"exit", {"code"}}};
  std::set<std::string> seen;
  for (const json& event : Lines("events.jsonl")) {
    SCOPED_TRACE(event.dump());
    const std::string name = event.at("event");
    seen.insert(name);
    EXPECT_THAT(Keys(event), IsSupersetOf({"time", "host", "run_id"}));
    EXPECT_THAT(Keys(event), IsSupersetOf(fields.at(name)));
  }
  EXPECT_EQ(seen.size(), fields.size());
}

INSTANTIATE_TEST_SUITE_P(Release, EarlierFormats, ::testing::ValuesIn(support::Releases()),
                         support::ReleaseTestName);

}  // namespace
}  // namespace mtrun::trainers

// Files of earlier releases (tests/testdata/formats) are read by today's code.
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "datasets/packed.h"
#include "datasets/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/support/program.h"
#include "trainers/checkpoints/checkpoint.h"
#include "trainers/checkpoints/run_state.h"
#include "trainers/run/options.h"
#include "trainers/run/run_progress.h"

namespace mtrun::trainers {
namespace {

using nlohmann::json;
using ::testing::IsSupersetOf;

class EarlierFormats : public ::testing::TestWithParam<std::string> {
 protected:
  static std::string File(const std::string& name) {
    return support::TestFile("testdata/formats/" + GetParam() + "/" + name);
  }
  /// The lines of a file of JSON objects.
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

TEST_P(EarlierFormats, APackedSetOpens) {
  const auto train = datasets::PackedSplit::Open(File("data"), "train", /*verify=*/true);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->size(), 16);
  EXPECT_EQ(train->height(), 28);
  for (int64_t i = 0; i < train->size(); ++i) EXPECT_EQ(train->label(i), i % 4);
  const auto test = datasets::PackedSplit::Open(File("data"), "test", /*verify=*/true);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(test->size(), 4);
}

TEST_P(EarlierFormats, ACheckpointIsIntactAndItsStateIsRead) {
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

TEST_P(EarlierFormats, TheLedgerIsVerified) {
  for (const char* run : {"run", "run_diffusion"}) {
    support::Program verify({"python3", support::TestFile("../tools/verify_ledger"), File(run), "--partial"});
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
  int steps = 0;
  for (const json& line : Lines("run/metrics.jsonl")) {
    SCOPED_TRACE(line.dump());
    if (line.contains("step")) {
      EXPECT_EQ(line["step"], steps++);
      EXPECT_THAT(Keys(line), IsSupersetOf({"epoch", "loss", "lr", "samples", "seconds"}));
    } else if (line.contains("eval")) {
      EXPECT_THAT(Keys(line), IsSupersetOf({"steps", "train_loss", "test_loss", "test_accuracy", "seconds"}));
    } else if (line.contains("regroup")) {
      EXPECT_THAT(Keys(line), IsSupersetOf({"world", "steps", "assign", "connect", "state", "first_step"}));
    } else {
      EXPECT_THAT(Keys(line), IsSupersetOf({"save", "bytes", "stall"}));
    }
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

std::vector<std::string> Releases() {
  std::vector<std::string> releases;
  const char* source = std::getenv("MT_SOURCE_DIR");
  if (source == nullptr) return releases;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(source) + "/tests/testdata/formats")) {
    if (entry.is_directory()) releases.push_back(entry.path().filename());
  }
  return releases;
}

INSTANTIATE_TEST_SUITE_P(Release, EarlierFormats, ::testing::ValuesIn(Releases()), [](const auto& release) {
  std::string name = release.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

}  // namespace
}  // namespace mtrun::trainers

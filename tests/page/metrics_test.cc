#include "page/metrics.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "page/state_json.h"
#include "tests/page/states.h"

namespace mtrun::page {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr TimePoint kMetricsNow{};

std::string TextOf(rendezvous::WatchedState state) {
  History history;
  history.OnState(state, kMetricsNow);
  return MetricsText(StateJson(state, history, kMetricsNow));
}

TEST(MetricsTest, FamiliesAreContiguousAfterTheirHelpAndType) {
  const std::string text = TextOf(AState(2, 1));
  std::set<std::string> seen;
  std::string family;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 3));
    if (words[1] == "HELP") {
      family = words[2];
      EXPECT_TRUE(seen.insert(family).second) << line;
    } else if (words[0] != "#") {
      EXPECT_EQ(words[0].substr(0, words[0].find('{')), family) << line;
    }
    if (words[1] == "TYPE") {
      EXPECT_EQ(words[2], family) << line;
      EXPECT_EQ(words[3] == "counter", absl::EndsWith(family, "_total")) << line;
    }
  }
  EXPECT_THAT(text, HasSubstr("mtrun_job_world_size{job=\"job\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("mtrun_worker_step{job=\"job\",node=\"n1-1-abc\",host=\"n1\",local_rank=\"0\","
                              "rank=\"1\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("mtrun_job_nodes{job=\"job\",level=\"bad\"} 0\n"));
}

TEST(MetricsTest, UntrustedNamesAreEscapedInLabels) {
  auto state = AState(1, 1);
  state.status.jobs[0].nodes[0].host = "a\"} 1\nmtrun_up 0\\";
  const std::string text = TextOf(state);
  EXPECT_THAT(text, HasSubstr("host=\"a\\\"} 1\\nmtrun_up 0\\\\\""));
  EXPECT_THAT(text, Not(HasSubstr("\nmtrun_up 0")));
}

TEST(MetricsTest, UnknownValuesAreOmitted) {
  auto state = AState(1, 1);
  state.nodes[0].use.gpus.push_back({.name = "H100", .memory = 5, .memory_total = 10});
  const std::string text = TextOf(state);
  EXPECT_THAT(text, HasSubstr("mtrun_gpu_memory_bytes{"));
  EXPECT_THAT(text, Not(HasSubstr("mtrun_gpu_temperature_celsius")));
  EXPECT_EQ(MetricsText(SilenceJson("nobody")),
            "# HELP mtrun_up Whether the rendezvous service answers.\n# TYPE mtrun_up gauge\nmtrun_up 0\n");
}

}  // namespace
}  // namespace mtrun::page

#include "launcher/top_screen.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mtrun::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

rendezvous::ServiceStatus Status(int nodes, const std::string& reason) {
  rendezvous::ServiceStatus status;
  rendezvous::JobView job;
  job.settings.job_id = "train";
  job.phase = "running";
  job.generation = {.number = 2, .id = 7};
  job.reason = reason;
  for (int i = 0; i < nodes; ++i) {
    rendezvous::NodeView node;
    node.node_id = node.host = absl::StrCat("node", i);
    node.state = "member";
    node.node_rank = i;
    node.workers = 4;
    job.nodes.push_back(node);
  }
  status.jobs.push_back(job);
  return status;
}

std::vector<std::string> Lines(const TopScreen& screen, const TerminalSize& size) {
  return absl::StrSplit(screen.Draw(size), '\n');
}

TEST(TopScreen, FillsTheTerminalAndNoMore) {
  for (const bool colours : {false, true}) {
    TopScreen screen("node1:29400", colours);
    screen.OnAnswer(Status(40, "node3 joins"), "14:00:00");
    for (const TerminalSize size : {TerminalSize{80, 24}, {160, 50}, {20, 3}, {300, 100}}) {
      const auto lines = Lines(screen, size);
      EXPECT_EQ(lines.size(), static_cast<size_t>(size.rows));
      for (const std::string& line : lines)
        EXPECT_LE(ColumnsOf(line), static_cast<size_t>(size.columns)) << line;
    }
  }
}

TEST(TopScreen, ShowsWhatChanged) {
  TopScreen screen("node1:29400", false);
  screen.OnAnswer(Status(2, "node1 joins"), "14:00:00");
  screen.OnAnswer(Status(2, "node1 joins"), "14:00:01");
  screen.OnAnswer(Status(1, "node1 is lost: connection reset"), "14:00:02");
  screen.OnSilence(absl::UnavailableError("nobody answers"), "14:00:03");
  screen.OnSilence(absl::UnavailableError("nobody answers"), "14:00:04");
  const std::string text = screen.Draw({120, 30});
  EXPECT_THAT(text, HasSubstr("14:00:00  train: running, generation 2: node1 joins\n"));
  EXPECT_THAT(text, HasSubstr("14:00:02  train: running, generation 2: node1 is lost: connection reset\n"
                              "14:00:03  no answer: nobody answers\n"));
  EXPECT_THAT(text, Not(HasSubstr("14:00:01  train")));
  EXPECT_THAT(text, Not(HasSubstr("14:00:04")));
  screen.OnAnswer({}, "14:00:05");
  EXPECT_THAT(screen.Draw({120, 30}),
              HasSubstr("14:00:05  the service answers again\n14:00:05  train is gone"));
}

TEST(TopScreen, TextThatIsTooLongWrapsAndTablesKeepTheirColumns) {
  TopScreen screen("node1:29400", false);
  rendezvous::ServiceStatus status =
      Status(2, "rank 5 (local 1, pid 4711) on node2: exit code 1; restart 1 of 3");
  status.jobs[0].settings.job_id = "a-job-with-quite-a-long-name";
  status.jobs[0].nodes[0].address = "2001:0db8:0000:0000:0000:0000:0000:0001";
  screen.OnAnswer(status, "14:00:00");
  const auto lines = Lines(screen, {60, 30});
  const auto at = [&](const std::string& begin) {
    return static_cast<size_t>(
        std::find_if(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.starts_with(begin); }) -
        lines.begin());
  };
  ASSERT_LT(at("job a-job"), lines.size());
  EXPECT_THAT(lines[at("job a-job") + 1], testing::StartsWith("    ")) << "the rest of it";
  EXPECT_EQ(lines[at("  last change:")], "  last change: rank 5 (local 1, pid 4711) on node2: exit");
  EXPECT_EQ(lines[at("  last change:") + 1], "    code 1; restart 1 of 3");
  EXPECT_THAT(lines[at("  0 ") + 1], testing::StartsWith("  1 ")) << "a row is one line";
  EXPECT_THAT(screen.Draw({60, 30}), HasSubstr("restart 1 of 3\n\n"))
      << "the change, whole, is the last text";
}

}  // namespace
}  // namespace mtrun::launcher

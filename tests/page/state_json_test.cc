#include "page/state_json.h"

#include "base/json_text.h"
#include "gtest/gtest.h"
#include "tests/page/states.h"

namespace mtrun::page {
namespace {

using nlohmann::json;

constexpr TimePoint kNow{};

TEST(StateJsonTest, JobIsWrittenWithItsNodesAndWorkers) {
  History history;
  history.OnState(AState(3, 1), kNow);
  auto state = AState(3, 2);
  state.happenings.push_back({"job", 5, 1'700'000'000'000'000'000, "generation 3 begins"});
  state.happenings.push_back({"other", 6, 0, "of another job"});
  history.OnState(state, kNow);
  const json made = StateJson(state, history, kNow);
  EXPECT_TRUE(made["answers"]);
  const json& job = made["jobs"][0];
  EXPECT_EQ(job["world_size"], 3);
  EXPECT_EQ(job["step"], 14);
  EXPECT_EQ(job["step_s"], 0.1);
  EXPECT_EQ(job["samples_per_s"], 64.0);
  EXPECT_EQ(job["loss"], 2.5);
  EXPECT_EQ(job["learning_rate"], 0.125);
  EXPECT_EQ(job["accuracy"], 0.75);
  EXPECT_EQ(job["epoch"], 2);
  EXPECT_EQ(job["epochs"], 5);
  EXPECT_EQ(job["total_steps"], 34);
  EXPECT_EQ(job["left_s"], 2.0);
  EXPECT_EQ(job["run"], "cnnA-2");
  EXPECT_EQ(job["nodes"][2]["ranks"][0]["loss"], 1.5);
  EXPECT_EQ(job["nodes"][2]["cpus_busy"], 2.0);
  EXPECT_EQ(job["nodes"][2]["level"], "good");
  EXPECT_EQ(job["nodes"][2]["ranks"][0]["rank"], 2);
  EXPECT_EQ(job["nodes"][2]["ranks"][0]["cpus_busy"], 0.5);
  EXPECT_EQ(job["nodes"][2]["gpus"], json::array());
  ASSERT_EQ(job["events"].size(), 1u);
  EXPECT_EQ(job["events"][0]["time_ms"], 1'700'000'000'000);
}

TEST(StateJsonTest, SlowestWorkerIsTheOneThatOthersWaitFor) {
  History history;
  const auto state = AState(3, 1);
  history.OnState(state, kNow);
  const json made = StateJson(state, history, kNow);
  const json& slow = made["jobs"][0]["stragglers"];
  ASSERT_EQ(slow.size(), 3u);
  EXPECT_EQ(slow[0]["rank"], 1);
  EXPECT_EQ(slow[0]["own_step_s"], 0.1);
  EXPECT_EQ(slow[0]["times_median"], 2.5);
}

TEST(StateJsonTest, LostNodeIsBadAndHasAReason) {
  History history;
  history.OnState(AState(2, 1), kNow);
  auto state = AState(1, 2);
  const rendezvous::NodeLost dead{.how = rendezvous::NodeLost::How::kAgentGone};
  state.happenings.push_back({"job", 1, 0, "n1 is lost", rendezvous::Cause{"n1-1-abc", "n1", dead}});
  history.OnState(state, kNow);
  const json made = StateJson(state, history, kNow + std::chrono::seconds(3));
  const json& node = made["jobs"][0]["nodes"][1];
  EXPECT_EQ(node["state"], "lost");
  EXPECT_EQ(node["level"], "bad");
  EXPECT_EQ(node["note"], "n1 is lost: its agent is gone");
  EXPECT_EQ(node["gone_for_s"], 3.0);
  EXPECT_TRUE(node["first_rank"].is_null());
}

TEST(StateJsonTest, UnknownValuesAreNull) {
  History history;
  auto state = AState(1, 1);
  state.nodes.clear();
  state.status.jobs[0].nodes[0].state = "member, away";
  const json made = StateJson(state, history, kNow);
  const json& job = made["jobs"][0];
  EXPECT_TRUE(job["step"].is_null());
  for (const char* unknown : {"loss", "accuracy", "epoch", "epochs", "total_steps", "run", "left_s"})
    EXPECT_TRUE(job[unknown].is_null()) << unknown;
  EXPECT_TRUE(job["nodes"][0]["cpus_busy"].is_null());
  EXPECT_EQ(job["nodes"][0]["level"], "bad");
  EXPECT_EQ(job["stragglers"], json::array());
}

TEST(StateJsonTest, EndedJobHasTheTimeSinceItsEnd) {
  rendezvous::WatchedState state;
  rendezvous::JobView job;
  job.settings.job_id = "done";
  job.phase = "ended";
  state.ended.emplace_back(job, std::chrono::seconds(90));
  const json made = StateJson(state, History(), kNow);
  EXPECT_EQ(made["jobs"][0]["ended_for_s"], 90.0);
}

TEST(StateJsonTest, InvalidUtf8DoesNotBreakTheLine) {
  auto state = AState(1, 1);
  state.status.jobs[0].nodes[0].host = "\xff<script>\n";
  const std::string line = JsonLine(StateJson(state, History(), kNow));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_TRUE(json::accept(line));
}

TEST(StateJsonTest, OneThousandNodesAreWrittenInTime) {
  History history;
  const auto state = AState(1000, 1);
  history.OnState(state, kNow);
  const auto begun = std::chrono::steady_clock::now();
  const std::string line = JsonLine(StateJson(state, history, kNow));
  EXPECT_LT(line.size(), size_t{1} << 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begun,
            std::chrono::seconds(5));  // sanitizers, a loaded machine
}

}  // namespace
}  // namespace mtrun::page

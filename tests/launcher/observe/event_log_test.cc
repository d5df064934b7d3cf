#include "launcher/observe/event_log.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

TEST(EventLogTest, RecordsDescribeEvents) {
  WorkerExited killed;
  killed.local_rank = 2;
  killed.pid = 77;
  killed.signal = 9;
  EXPECT_EQ(RecordOf(Event(killed))->dump(),
            R"({"event":"worker_exited","local_rank":2,"pid":77,"signal":"SIGKILL"})");
  EXPECT_EQ(RecordOf(Event(SignalReceived{15}))->dump(), R"({"event":"signal_received","signal":"SIGTERM"})");
  EXPECT_EQ(RecordOf(Event(PreemptFileAppeared{}))->dump(), R"({"event":"preempt_file_appeared"})");
  EXPECT_FALSE(RecordOf(Event(Tick{})));
  rendezvous::JobEnded ended;
  ended.outcome.exit_code = 3;
  ended.outcome.reason = "why";
  ended.outcome.root_cause.emplace();
  ended.outcome.root_cause->rank = 4;
  const auto record = RecordOf(Event(rendezvous::ServiceEvent(ended)));
  EXPECT_EQ((*record)["root_cause"]["rank"], 4);
  EXPECT_EQ((*record)["exit_code"], 3);
  EXPECT_EQ(RecordOf(Effect(Exit{7, std::nullopt}))->dump(), R"({"code":7,"event":"exit"})");
}

TEST(EventLogTest, ControlCallNamesItsCaller) {
  const rendezvous::ControlCall drain{rendezvous::DrainCall{"node2"}, {"anna", "login1", 7, "10.0.0.7:4242"}};
  EXPECT_EQ(RecordOf(Event(rendezvous::ServiceEvent(drain)))->dump(),
            R"({"by":{"address":"10.0.0.7:4242","host":"login1","pid":7,"user":"anna"},)"
            R"("call":"drain","event":"control_call","node":"node2"})");
  const rendezvous::ControlCall stop{rendezvous::StopCall{true}, {}};
  EXPECT_EQ((*RecordOf(Event(rendezvous::ServiceEvent(stop))))["checkpoint"], true);
  const rendezvous::ControlCall evict{rendezvous::EvictCall{"node2", std::chrono::seconds(12)},
                                      {"anna", "login1", 7, "10.0.0.7:4242"}};
  EXPECT_EQ(RecordOf(Event(rendezvous::ServiceEvent(evict)))->dump(),
            R"({"age_s":12.0,"by":{"address":"10.0.0.7:4242","host":"login1","pid":7,"user":"anna"},)"
            R"("call":"evict","event":"control_call","node":"node2"})");
}

TEST(EventLogTest, FollowedLogIsOneCall) {
  rendezvous::LogRequest first{.id = 5, .rank = 3, .by = {"anna", "login1", 7, "10.0.0.7:4242"}};
  EXPECT_EQ(RecordOf(Event(rendezvous::ServiceEvent(first)))->dump(),
            R"({"by":{"address":"10.0.0.7:4242","host":"login1","pid":7,"user":"anna"},)"
            R"("call":"logs","event":"control_call","rank":3})");
  first.attempt = "/logs/0";
  EXPECT_EQ(RecordOf(Event(rendezvous::ServiceEvent(first))), std::nullopt);
}

TEST(EventLogTest, GenerationsHaveTheNamesThatWorkersSee) {
  rendezvous::Assignment assignment;
  assignment.generation = {3, 0xab};
  assignment.members.resize(2);
  assignment.members[0].workers = 2;
  rendezvous::Member& second = assignment.members[1];
  second.host = "node1";
  second.node_rank = second.workers = 1;
  second.first_rank = 2;
  assignment.world_size = 3;
  const std::string name = channel::ToText(assignment.generation);
  const auto assigned = RecordOf(Event(rendezvous::ServiceEvent(rendezvous::Assigned{assignment})));
  EXPECT_EQ((*assigned)["generation_id"], name);
  EXPECT_EQ((*assigned)["nodes"][1].dump(), R"({"first_rank":2,"host":"node1","node_rank":1,"workers":1})");
  const auto started = RecordOf(Effect(StartWorkers{assignment, 1, {0}}));
  EXPECT_EQ((*started)["generation_id"], name);
  EXPECT_EQ((*started)["local_ranks"].dump(), "[0]");
  const rendezvous::Cause joins{"node3-7-abc", "node3", rendezvous::NodeJoined()};
  const auto dissolved = RecordOf(
      Event(rendezvous::ServiceEvent(rendezvous::GenerationDissolved{assignment.generation, joins, 0})));
  EXPECT_EQ((*dissolved)["generation_id"], name);
  EXPECT_EQ((*dissolved)["reason"], "node3 joins");
}

TEST(EventLogTest, LinesAreAppendedWithTimeAndHost) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("events"), "{}\n");
  auto log = EventLog::Open(folder.File("events"), "node1", "job");
  ASSERT_TRUE(log.ok()) << log.status();
  log->Write(Event(SessionConnected{}));
  log->Write(Event(Tick{}));
  WorkerExited binary;
  binary.exit_code = 1;
  binary.message = "\xff\xfe";
  log->Write(Event(binary));
  const std::vector<std::string> lines = absl::StrSplit(support::ReadText(folder.File("events")), '\n');
  ASSERT_EQ(lines.size(), 4u);
  const auto first = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(first["event"], "rendezvous_connected");
  EXPECT_EQ(first["host"], "node1");
  EXPECT_EQ(first["run_id"], "job");
  EXPECT_TRUE(first.contains("time"));
  EXPECT_EQ(nlohmann::json::parse(lines[2])["event"], "worker_exited");
}

TEST(EventLogTest, ErrorNamesAFileThatCannotBeOpened) {
  const auto log = EventLog::Open("/no/such/folder/events", "node1", "job");
  EXPECT_THAT(std::string(log.status().message()),
              testing::HasSubstr("--event_log: open /no/such/folder/events"));
  EventLog none;
  none.Write(Event(SessionConnected{}));  // nothing to write to
}

}  // namespace
}  // namespace mtrun::launcher

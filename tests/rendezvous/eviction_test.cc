#include "rendezvous/job/eviction.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rendezvous/job/job_table.h"
#include "rendezvous/wire/job_settings.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A service with jobs whose leases never end.
class EvictionTest : public ::testing::Test {
 protected:
  void Open(const std::string& job, const std::string& node, int nodes = 2) {
    JobSettings settings;
    settings.job_id = job;
    settings.min_nodes = 1;
    settings.max_nodes = nodes;
    settings.fence_timeout = Duration::zero();
    table_.Step(job, Event{node, StreamOpened{settings, {}, 0}}, now_);
  }
  void Arrive(const std::string& job, const std::string& node, const std::string& host, int nodes = 2) {
    Open(job, node, nodes);
    Offer offer;
    offer.node_id = node;
    offer.host = host;
    Say(job, node, OfferSent{offer});
  }
  void Say(const std::string& job, const std::string& node, AgentEvent event) {
    table_.Step(job, Event{node, AgentSaid{std::move(event), {}}}, now_);
  }
  void Close(const std::string& job, const std::string& node) {
    table_.Step(job, Event{node, StreamClosed{"reset"}}, now_);
  }
  /// Job "x" runs on node1 and node2.
  void RunTwo() {
    Arrive("x", "node1-11", "node1");
    Arrive("x", "node2-22", "node2");
    ASSERT_EQ(Job().View(now_).phase, "running");
  }
  const JobMachine& Job(const std::string& job = "x") const { return table_.jobs().at(job); }

  absl::StatusOr<Eviction> Choose(const std::string& name, const std::string& job = "") const {
    const absl::StatusOr<const JobMachine*> chosen = ChooseJob(table_.jobs(), job);
    if (!chosen.ok()) return chosen.status();
    return ChooseMember(**chosen, name, now_);
  }
  /// Returns why the eviction is refused, or "".
  std::string Refusal(const std::string& name, const std::string& job = "") const {
    return std::string(Choose(name, job).status().message());
  }
  /// Returns the line for the operator.
  std::string Evict(const std::string& name) {
    const absl::StatusOr<Eviction> eviction = Choose(name);
    if (!eviction.ok()) return std::string(eviction.status().message());
    table_.Step(eviction->job_id, Event{"", EvictionEvent(*eviction)}, now_);
    return DescribeEviction(*eviction, table_.jobs(), now_);
  }

  TimePoint now_ = TimePoint(std::chrono::seconds(100));
  JobTable table_{JobMachine::Options{3, TimePoint(), Duration::zero()}};
};

TEST_F(EvictionTest, NodeIsNamedByHostOrId) {
  RunTwo();
  Close("x", "node2-22");
  for (const char* name : {"node2", "node2-22"}) {
    const absl::StatusOr<Eviction> eviction = Choose(name);
    ASSERT_TRUE(eviction.ok()) << eviction.status();
    EXPECT_EQ(eviction->node_id, "node2-22");
    EXPECT_EQ(eviction->name, "node2");
    EXPECT_EQ(eviction->job_id, "x");
    EXPECT_EQ(eviction->generation.number, 1u);
  }
}

TEST_F(EvictionTest, ErrorForAnUnknownNameListsTheMembers) {
  RunTwo();
  EXPECT_EQ(Refusal("node3"),
            "\"node3\" is no member of generation 1 of job \"x\", which is of node1, node2");
  Arrive("x", "node3-33", "node3");
  EXPECT_THAT(Refusal("node3"), HasSubstr("is no member")) << "a spare";
}

TEST_F(EvictionTest, ErrorListsAFewOfManyMembers) {
  for (int i = 0; i < 100; ++i) Arrive("x", absl::StrCat("id", i), absl::StrCat("host", i), 100);
  EXPECT_THAT(Refusal("node3"),
              AllOf(HasSubstr("host0, "), HasSubstr(", 68 more"), Not(HasSubstr("host99"))));
}

TEST_F(EvictionTest, HostWithTwoMembersNeedsAnId) {
  Arrive("x", "node1-11", "node1");
  Arrive("x", "node1-12", "node1");
  Close("x", "node1-12");
  EXPECT_EQ(Refusal("node1"),
            "\"node1\" names 2 members of generation 1 of job \"x\"; give the id of one: node1-11, node1-12");
  const absl::StatusOr<Eviction> eviction = Choose("node1-12");
  ASSERT_TRUE(eviction.ok()) << eviction.status();
  EXPECT_EQ(eviction->name, "node1-12") << "its host alone would not say which";
}

TEST_F(EvictionTest, ConnectedNodeIsNotEvicted) {
  RunTwo();
  now_ += std::chrono::milliseconds(300);
  EXPECT_EQ(
      Refusal("node2"),
      "node2 is connected (heard 300 ms ago); let it leave instead (mtrun --drain, or SIGTERM to its mtrun)");
  const JobMachine before = Job();
  table_.Step("x", Event{"", EvictionEvent({"x", "node2-22", "node2", {}})}, now_);
  EXPECT_TRUE(before == Job()) << "also when it has come back since it was chosen";
  table_.Step("x", Event{"", EvictionEvent({"x", "nobody", "nobody", {}})}, now_);
  EXPECT_TRUE(before == Job());
}

TEST_F(EvictionTest, JobWithoutAGenerationHasNoMemberToEvict) {
  Open("x", "node1-11");
  EXPECT_THAT(Refusal("node1"), HasSubstr("job \"x\" has had no generation"));
}

TEST_F(EvictionTest, EndedJobHasNoMemberToEvict) {
  RunTwo();
  Close("x", "node2-22");
  WorkerFailure failure;
  failure.exit_code = 3;
  Say("x", "node1-11", WorkerFailed{Job().View(now_).generation, failure});
  now_ += std::chrono::seconds(1);
  table_.Tick(now_);
  ASSERT_TRUE(Job().outcome().has_value());
  EXPECT_THAT(Refusal("node2"), AllOf(HasSubstr("job \"x\" has ended ("), HasSubstr("exit code 3")));
  EXPECT_EQ(Refusal("node2", "x"), Refusal("node2"));
}

TEST_F(EvictionTest, JobIdIsRequiredIfThereAreSeveralJobs) {
  EXPECT_EQ(Refusal("node1"), "the service has no job");
  EXPECT_TRUE(absl::IsNotFound(Choose("node1").status()));
  RunTwo();
  Arrive("y", "node1-13", "node1", 1);
  Close("y", "node1-13");
  EXPECT_EQ(Refusal("node1"), "the service has 2 jobs; say which one (--rdzv_id): x, y");
  EXPECT_TRUE(absl::IsFailedPrecondition(Choose("node1").status()));
  const absl::StatusOr<Eviction> eviction = Choose("node1", "y");
  ASSERT_TRUE(eviction.ok()) << eviction.status();
  EXPECT_EQ(eviction->node_id, "node1-13");
  EXPECT_EQ(Refusal("node1", "z"), "the service does not have job \"z\", but x, y");
  EXPECT_TRUE(absl::IsNotFound(Choose("node1", "z").status()));
}

TEST_F(EvictionTest, AnswerSaysHowTheJobContinues) {
  Arrive("x", "node1-11", "node1", 1);
  Arrive("x", "node2-22", "node2", 1);
  Close("x", "node1-11");
  EXPECT_EQ(Evict("node1"), "node1 is evicted from generation 1 of job \"x\": generation 2 runs on 1 node");
  Close("x", "node2-22");
  EXPECT_EQ(Evict("node2"),
            "node2 is evicted from generation 2 of job \"x\": no node of it is here; it begins again with "
            "the next");
  EXPECT_TRUE(table_.jobs().empty());
}

TEST_F(EvictionTest, AnswerNamesTheNodesThatAreAwaited) {
  RunTwo();
  Close("x", "node2-22");
  const std::string first = Evict("node2");
  EXPECT_THAT(first, HasSubstr("node2 is evicted from generation 1 of job \"x\": waiting for node1"));
  EXPECT_EQ(Evict("node2"), first) << "twice is as good as once";
}

}  // namespace
}  // namespace mtrun::rendezvous

#include "rendezvous/types.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Describe, NamesHowAWorkerEnded) {
  WorkerFailure failure;
  failure.host = "node2";
  failure.rank = 1;
  failure.local_rank = 1;
  failure.pid = 123;
  failure.signal = 9;
  EXPECT_EQ(Describe(failure), "rank 1 (local 1, pid 123) on node2: killed by SIGKILL");
  failure.signal = 0;
  failure.exit_code = 3;
  EXPECT_EQ(Describe(failure), "rank 1 (local 1, pid 123) on node2: exit code 3");
}

TEST(Describe, ShowsAnAssignmentsRanks) {
  Assignment assignment;
  assignment.generation.number = 4;
  assignment.members = {Member{"a", "node1", "10.0.0.1", "default", 0, 0, 2},
                        Member{"b", "node2", "10.0.0.2", "default", 1, 2, 1}};
  assignment.world_size = 3;
  assignment.master_address = "10.0.0.1";
  assignment.master_port = 29500;
  EXPECT_EQ(Describe(assignment),
            "generation 4: 2 nodes, world size 3: node1 (ranks 0-1), node2 (rank 2); master 10.0.0.1:29500");
  assignment.members.resize(17, Member{"c", "node3", "10.0.0.3", "default", 2, 3, 1});
  EXPECT_THAT(Describe(assignment), HasSubstr("node1 (ranks 0-1), node2 (rank 2), node3 (rank 3), "));
  EXPECT_THAT(Describe(assignment), HasSubstr(", node3 (rank 3), 2 more; master "));
  assignment.members.pop_back();
  EXPECT_THAT(Describe(assignment), testing::Not(HasSubstr("more")));
}

TEST(Describe, EscapesStoreKeys) {
  EXPECT_THAT(Describe(AgentEvent(StoreRead{{}, 1, {"a\nb"}, true})), HasSubstr("a\\nb"));
}

TEST(DifferingSettings, ListsEachKey) {
  JobSettings job, here;
  EXPECT_TRUE(DifferingSettings(job, here).empty());
  here.version = "0.0.1";
  here.max_nodes = 3;
  here.last_call = std::chrono::seconds(2);
  EXPECT_THAT(DifferingSettings(job, here),
              ElementsAre(absl::StrCat("version is 0.0.1 here, ", Version(), " in the job"),
                          "max_nodes is 3 here, 1 in the job", "last_call is 2 here, 1 in the job"));
  here = job;
  here.program = "train.py 3f2a90bc11d4";
  EXPECT_THAT(
      DifferingSettings(job, here),
      ElementsAre("program is train.py 3f2a90bc11d4 here, any in the job (another job needs an --rdzv_id "
                  "of its own)"));
}

}  // namespace
}  // namespace mtrun::rendezvous

#include "rendezvous/wire/types.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

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

TEST(Describe, ShowsRanksOfAnAssignment) {
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

}  // namespace
}  // namespace mtrun::rendezvous

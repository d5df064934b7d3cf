#include "base/nearest_name.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(NearestName, FindsTyposAndNothingForUnrelatedNames) {
  EXPECT_EQ(NearestName("nnode", {"nnodes", "nproc_per_node"}), "nnodes");
  EXPECT_EQ(NearestName("zzzzzz", {"nnodes"}), "");
}

TEST(RelatedNames, ShareAWord) {
  const std::vector<std::string> names = {"nnodes", "nproc_per_node", "max_restarts", "log_dir"};
  EXPECT_THAT(RelatedNames("nprocs", names), ElementsAre("nproc_per_node"));
  EXPECT_THAT(RelatedNames("restart_limit", names), ElementsAre("max_restarts"));
  EXPECT_THAT(RelatedNames("per", names), IsEmpty());
  EXPECT_THAT(RelatedNames("a_node", names), ElementsAre("nproc_per_node"));
}

}  // namespace
}  // namespace mtrun

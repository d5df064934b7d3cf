#include "rendezvous/wire/job_settings.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::rendezvous {
namespace {

using ::testing::ElementsAre;

TEST(DifferingSettings, ListsEachDifferingKey) {
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

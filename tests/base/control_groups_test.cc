#include "base/control_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/program.h"

namespace mtrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ControlGroupsTest : public testing::Test {
 protected:
  std::vector<std::string> Of(const std::string& controller, const std::string& groups) const {
    std::filesystem::create_directories(root_.File("proc/self"));
    support::WriteText(root_.File("proc/self/cgroup"), groups);
    std::vector<std::string> found;
    for (const ControlGroup& group : ControlGroupsOf(controller, root_.path()))
      found.push_back((group.version2 ? "2:" : "1:") + group.folder.substr(root_.path().size()));
    return found;
  }
  const support::TemporaryFolder root_;
};

TEST_F(ControlGroupsTest, ListsGroupsFromItsOwnToTheRoot) {
  EXPECT_THAT(Of("cpu", "0::/a/b\n"),
              ElementsAre("2:/sys/fs/cgroup/a/b", "2:/sys/fs/cgroup/a", "2:/sys/fs/cgroup"));
  EXPECT_THAT(Of("cpu", "0::/\n"), ElementsAre("2:/sys/fs/cgroup"));
  EXPECT_THAT(Of("cpu", "4:cpu,cpuacct:/a\n5:pids:/p\n"),
              ElementsAre("1:/sys/fs/cgroup/cpu/a", "1:/sys/fs/cgroup/cpu"));
  EXPECT_THAT(Of("pids", "4:cpu,cpuacct:/a\n5:pids:/p\n"),
              ElementsAre("1:/sys/fs/cgroup/pids/p", "1:/sys/fs/cgroup/pids"));
}

TEST_F(ControlGroupsTest, MalformedEntriesAreSkipped) {
  EXPECT_THAT(ControlGroupsOf("cpu", root_.path()), IsEmpty());
  EXPECT_THAT(Of("cpu", "\nx\n3:cpu\n"), IsEmpty());
  EXPECT_THAT(Of("cpu", "0::relative\n"), ElementsAre("2:/sys/fs/cgroup"));
}

}  // namespace
}  // namespace mtrun

#include "base/processor_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/program.h"

namespace mtrun {
namespace {

class ProcessorKindTest : public testing::Test {
 protected:
  std::string KindOf(const std::string& cpuinfo) {
    std::filesystem::create_directories(root_.path() + "/proc");
    support::WriteText(root_.path() + "/proc/cpuinfo", cpuinfo);
    return ProcessorKind(root_.path());
  }

  const support::TemporaryFolder root_;
};

TEST_F(ProcessorKindTest, NamesVendorFamilyAndModel) {
  EXPECT_EQ(KindOf("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
                   "model name\t: AMD EPYC\n\nprocessor\t: 1\nvendor_id\t: Other\n"),
            "AuthenticAMD family 25 model 17");
  EXPECT_EQ(ProcessorName(root_.path()), "AMD EPYC");
}

TEST_F(ProcessorKindTest, NamesImplementerAndPartOnArm) {
  EXPECT_EQ(KindOf("processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"),
            "ARM implementer 0x41 part 0xd40");
}

TEST_F(ProcessorKindTest, KnowsNothingWithoutLines) {
  EXPECT_EQ(KindOf("no line of this form\n"), "an unknown processor");
  EXPECT_EQ(ProcessorKind(root_.path() + "/none"), "an unknown processor");
  EXPECT_EQ(ProcessorName(root_.path()), "unknown");
}

}  // namespace
}  // namespace mtrun

#include "launcher/doctor/finding.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

const Findings kSome = {{Health::kOk, "clock", "synchronised"},
                        {Health::kWarn, "open files", "256", "raise it"},
                        {Health::kFail, "token", "is open to others", "chmod 600"}};

TEST(FindingTest, ColumnsAlign) {
  EXPECT_EQ(Render(kSome, false, 0),
            "ok    clock       synchronised\n"
            "warn  open files  256: raise it\n"
            "FAIL  token       is open to others: chmod 600\n");
  EXPECT_EQ(Render({kSome[2]}, true, 0), "\x1b[31mFAIL\x1b[0m  token  is open to others: chmod 600\n");
  EXPECT_EQ(Render({}, false, 0), "");
}

TEST(FindingTest, TerminalGetsWrappedTextInItsColumn) {
  EXPECT_EQ(Render({kSome[2]}, false, 41),
            "FAIL  token  is open to others: chmod\n"
            "             600\n");
}

TEST(FindingTest, OnlyFailuresCount) {
  EXPECT_EQ(ExitStatusOf({}), 0);
  EXPECT_EQ(ExitStatusOf({kSome[0], kSome[1]}), 0);
  EXPECT_EQ(ExitStatusOf(kSome), 1);
}

TEST(FindingTest, BytesAreHumanReadable) {
  EXPECT_EQ(HumanBytes(0), "0 bytes");
  EXPECT_EQ(HumanBytes(1023), "1023 bytes");
  EXPECT_EQ(HumanBytes(1 << 16), "64 KiB");
  EXPECT_EQ(HumanBytes(uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(HumanBytes(uint64_t{71} << 30), "71 GiB");
}

}  // namespace
}  // namespace mtrun::launcher

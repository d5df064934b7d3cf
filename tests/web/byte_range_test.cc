#include "web/byte_range.h"

#include "gtest/gtest.h"

namespace mtrun::web {
namespace {

using Kind = ByteRange::Kind;
constexpr ByteRange kWhole{Kind::kWhole, 0, 1000};
constexpr ByteRange kImpossible{Kind::kImpossible, 0, 0};

ByteRange Part(int64_t offset, int64_t length) { return {Kind::kPart, offset, length}; }

TEST(ByteRange, OneRangeIsAPart) {
  EXPECT_EQ(SelectRange("bytes=0-0", 1000), Part(0, 1));
  EXPECT_EQ(SelectRange("bytes=10-19", 1000), Part(10, 10));
  EXPECT_EQ(SelectRange("bytes=990-", 1000), Part(990, 10));
  EXPECT_EQ(SelectRange("bytes=-10", 1000), Part(990, 10));
  EXPECT_EQ(SelectRange("Bytes= 10 - 19 ", 1000), Part(10, 10));
}

TEST(ByteRange, RangeBeyondTheEndIsCut) {
  EXPECT_EQ(SelectRange("bytes=990-5000", 1000), Part(990, 10));
  EXPECT_EQ(SelectRange("bytes=-5000", 1000), Part(0, 1000));
  EXPECT_EQ(SelectRange("bytes=1-99999999999999999999999999999999999", 1000), Part(1, 999));
}

TEST(ByteRange, RangeAfterTheEndIsImpossible) {
  EXPECT_EQ(SelectRange("bytes=1000-", 1000), kImpossible);
  EXPECT_EQ(SelectRange("bytes=99999999999999999999999-", 1000), kImpossible);
  EXPECT_EQ(SelectRange("bytes=-0", 1000), kImpossible);
  EXPECT_EQ(SelectRange("bytes=0-", 0), kImpossible);
  EXPECT_EQ(SelectRange("bytes=-1", 0), kImpossible);
}

TEST(ByteRange, InvalidOrMultipleRangesMeanTheWholeFile) {
  for (const char* header : {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=0-9,20-29", "bytes=9-0",
                             "items=0-9", "bytes=0x1-2", "bytes=--1", "bytes=1--2", "0-9", "bytes=+1-2"}) {
    EXPECT_EQ(SelectRange(header, 1000), kWhole) << header;
  }
}

}  // namespace
}  // namespace mtrun::web

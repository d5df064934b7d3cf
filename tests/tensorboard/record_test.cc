#include "tensorboard/record.h"

#include "gtest/gtest.h"
#include "tensorboard/crc32c.h"
#include "tests/tensorboard/read_events.h"

namespace mtrun::tensorboard {
namespace {

std::string Framed(std::initializer_list<std::string_view> records) {
  std::string bytes;
  for (const std::string_view record : records) AppendFrame(bytes, record);
  return bytes;
}

TEST(Record, RoundTrip) {
  std::string bytes = Framed({"", "one", std::string(100'000, 'x')});
  std::string_view rest = bytes;
  for (const size_t size : {0, 3, 100'000}) {
    const Frame frame = ReadFrame(rest);
    ASSERT_EQ(frame.state, Frame::State::kWhole);
    EXPECT_EQ(frame.record.size(), size);
    EXPECT_EQ(frame.size, size + 16);
    rest.remove_prefix(frame.size);
  }
  EXPECT_TRUE(rest.empty());
}

TEST(Record, TruncationAnywhereIsDetected) {
  const std::string bytes = Framed({"a record"});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(ReadFrame(std::string_view(bytes).substr(0, size)).state, Frame::State::kCut) << size;
}

TEST(Record, AnyChangedBitIsDamage) {
  const std::string whole = Framed({"a record"});
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_EQ(ReadFrame(bytes).state, Frame::State::kDamaged) << bit;
  }
}

TEST(Record, ImpossibleLengthIsDamage) {
  std::string length(8, '\xff');  // with a matching checksum
  const uint32_t sum = MaskedCrc32c(length);
  length.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  EXPECT_EQ(ReadFrame(length + std::string(64, 'x')).state, Frame::State::kDamaged);
}

TEST(Record, RecordsBeforeDamageAreRead) {
  std::string bytes = Framed({"", ""});
  bytes += "garbage, longer than the head of a frame";
  const SeenFile file = ReadEventFile(bytes);
  EXPECT_EQ(file.events.size(), 2u);
  EXPECT_EQ(file.end, "damaged");
}

}  // namespace
}  // namespace mtrun::tensorboard

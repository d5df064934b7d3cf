#include "base/gpus.h"

#include "gtest/gtest.h"

namespace mtrun {
namespace {

TEST(GpusTest, ThereAreNoneWithoutTheLibrary) {
  EXPECT_EQ(Gpus::Load("libno-such-nvml.so.1"), nullptr);
  EXPECT_EQ(Gpus::Load("libm.so.6"), nullptr);  // a library without NVML's functions
}

TEST(GpusTest, UnsupportedReadingIsUnknown) {
  const auto gpus = Gpus::Load(MT_FAKE_NVML);
  ASSERT_NE(gpus, nullptr);
  const auto all = gpus->Read();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], (GpuReading{"Fake GPU", 87, 50, 80, 61}));
  EXPECT_EQ(all[1], (GpuReading{"", -1, 50, 80, -1}));
}

TEST(GpusTest, GpuIsFoundByItsAddress) {
  const auto gpus = Gpus::Load(MT_FAKE_NVML);
  ASSERT_NE(gpus, nullptr);
  EXPECT_EQ(gpus->ReadAt("00000000:17:00.0"), (GpuReading{"Fake GPU", 87, 50, 80, 61}));
  EXPECT_EQ(gpus->ReadAt("00000000:18:00.0"), (GpuReading{"", -1, 50, 80, -1}));
  EXPECT_EQ(gpus->ReadAt("00000000:19:00.0"), std::nullopt);
}

}  // namespace
}  // namespace mtrun

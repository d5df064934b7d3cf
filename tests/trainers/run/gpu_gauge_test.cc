#include "trainers/run/records/gpu_gauge.h"

#include "gtest/gtest.h"

namespace mtrun::trainers {
namespace {

constexpr char kBusy[] = "00000000:17:00.0", kSilent[] = "00000000:18:00.0";  // defined in fake_nvml.cc

const TimePoint kGaugeStart{std::chrono::hours(1)};

FinishedStep LookOf(GpuGauge& gauge, TimePoint now) {
  FinishedStep step;
  gauge.Look(step, now);
  return step;
}

TEST(GpuGaugeTest, WorkersGpuIsSampledOnceASecond) {
  GpuGauge gauge(kBusy, MT_FAKE_NVML);
  const FinishedStep first = LookOf(gauge, kGaugeStart);
  EXPECT_EQ(first.gpu_busy_percent, 87);
  EXPECT_EQ(first.gpu_memory, 50);
  EXPECT_EQ(LookOf(gauge, kGaugeStart + GpuGauge::kEvery / 2).gpu_busy_percent, std::nullopt);
  EXPECT_EQ(LookOf(gauge, kGaugeStart + GpuGauge::kEvery).gpu_busy_percent, 87);
}

TEST(GpuGaugeTest, UnknownValuesAreLeftOut) {
  GpuGauge silent(kSilent, MT_FAKE_NVML), other("00000000:19:00.0", MT_FAKE_NVML);
  GpuGauge processors("", MT_FAKE_NVML), no_library(kBusy, "libno-such-nvml.so.1");
  const FinishedStep step = LookOf(silent, kGaugeStart);
  EXPECT_EQ(step.gpu_busy_percent, std::nullopt);
  EXPECT_EQ(step.gpu_memory, 50);
  for (GpuGauge* gauge : {&other, &processors, &no_library})
    EXPECT_EQ(LookOf(*gauge, kGaugeStart).gpu_memory, std::nullopt);
}

}  // namespace
}  // namespace mtrun::trainers

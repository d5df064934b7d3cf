#include "launcher/observe/gpus.h"

#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

TEST(GpusTest, WithoutTheLibraryThereAreNone) {
  EXPECT_EQ(Gpus::Load("libno-such-nvml.so.1"), nullptr);
  EXPECT_EQ(Gpus::Load("libm.so.6"), nullptr);  // a library without its calls
}

TEST(GpusTest, WhatAGpuDoesNotTellIsUnknown) {
  const auto gpus = Gpus::Load(MT_FAKE_NVML);
  ASSERT_NE(gpus, nullptr);
  const auto all = gpus->Read();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], (rendezvous::GpuUse{"Fake GPU", 87, 50, 80, 61}));
  EXPECT_EQ(all[1], (rendezvous::GpuUse{"", -1, 50, 80, -1}));
}

}  // namespace
}  // namespace mtrun::launcher

#include "trainers/program/resolve_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtrun::trainers {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ProgramRules kSmall{.name = "small", .images = {.size = 32}};
const ProgramRules kAny{.name = "any", .images = {.size = 0, .adjustable = true}};
const ProgramRules kLarge{.name = "large",
                          .images = {.size = 224, .adjustable = true, .enlarges = true, .any_size = true},
                          .channels_last_on_cpu = true};

MachineFacts Cpu(int side) { return {.cores = 8, .image_height = side, .image_width = side}; }
MachineFacts Gpu(int side) {
  MachineFacts machine = Cpu(side);
  machine.gpus = 2;
  return machine;
}
TrainOptions Auto() {
  TrainOptions options;
  options.data = "/data";
  options.amp = options.device = options.channels_last = "auto";
  return options;
}
std::string Refusal(const ProgramRules& program, const TrainOptions& options, const MachineFacts& machine) {
  const auto run = ResolveRun(program, options, machine);
  EXPECT_TRUE(absl::IsInvalidArgument(run.status())) << run.status();
  return std::string(run.status().message());
}

TEST(ResolveRun, ImagesAreKeptPaddedResizedOrEnlarged) {
  struct Case {
    const ProgramRules* program;
    int given, side, network, batch;
    const char* source;
  };
  for (const Case& c :
       {Case{&kSmall, 0, 32, 32, 32, "as in the data"},
        Case{&kSmall, 0, 28, 32, 32, "28x28 padded with black"},
        Case{&kSmall, 32, 64, 32, 32, "64x64 resized"}, Case{&kAny, 0, 48, 48, 48, "as in the data"},
        Case{&kAny, 16, 48, 16, 16, "48x48 resized"},
        Case{&kLarge, 0, 32, 224, 32, "32x32 enlarged on the device"},
        Case{&kLarge, 64, 32, 64, 32, "32x32 enlarged on the device"},
        Case{&kLarge, 0, 500, 224, 224, "500x500 resized"}}) {
    TrainOptions options = Auto();
    options.image_size = c.given;
    const auto run = ResolveRun(*c.program, options, Cpu(c.side));
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(run->image_size, c.network) << c.source;
    EXPECT_EQ(run->batch_image_size, c.batch) << c.source;
    EXPECT_THAT(run->derived, Contains(DerivedSetting{"image_size", std::to_string(c.network), c.source}));
  }
}

/// The contents of the data are not known yet, but settings that are wrong in themselves must already fail.
TEST(ResolveRun, ImagesOfAFittingSideWorkWithAllConsistentSettings) {
  TrainOptions options = Auto();
  for (const ProgramRules* program : {&kSmall, &kAny, &kLarge}) {
    const int side = FittingSide(program->images, options);
    EXPECT_EQ(side, program->images.size);
    EXPECT_TRUE(ResolveRun(*program, options, Cpu(side)).ok()) << program->name;
  }
  options.image_size = 64;
  EXPECT_TRUE(ResolveRun(kAny, options, Cpu(FittingSide(kAny.images, options))).ok());
  EXPECT_TRUE(ResolveRun(kLarge, options, Cpu(FittingSide(kLarge.images, options))).ok());
  EXPECT_THAT(Refusal(kSmall, options, Cpu(FittingSide(kSmall.images, options))),
              HasSubstr("--image_size 64: small takes images of 32x32 only"));

  options.reading.growth = {.from = 96, .first = 1, .end = 2};
  EXPECT_THAT(Refusal(kLarge, options, Cpu(FittingSide(kLarge.images, options))),
              HasSubstr("images grow to --image_size 64, which is smaller"));
  options.image_size = 0;
  ProgramRules any = kAny;
  any.images.any_size = true;
  EXPECT_TRUE(ResolveRun(any, options, Cpu(FittingSide(any.images, options))).ok());
}

TEST(ResolveRun, ImagesThatDoNotFitAreRefusedWithAdvice) {
  EXPECT_THAT(Refusal(kSmall, Auto(), Cpu(64)),
              HasSubstr("/data: the images are 64x64, but small takes 32x32: give --image_size 32"));
  TrainOptions options = Auto();
  options.image_size = 48;
  EXPECT_THAT(Refusal(kSmall, options, Cpu(64)), HasSubstr("small takes images of 32x32 only"));
}

TEST(ResolveRun, ImagesOfVaryingSizesAreCroppedAndResized) {
  MachineFacts machine = Cpu(28);
  machine.images_vary = true;
  const auto run = ResolveRun(kSmall, Auto(), machine);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->image_size, 32);
  EXPECT_EQ(run->batch_image_size, 32);
  EXPECT_EQ(run->derived[0].source, "the middle of images up to 28x28, resized");
}

TEST(ResolveRun, TestImagesCanHaveAnotherSize) {
  TrainOptions options = Auto();
  EXPECT_EQ(ResolveRun(kLarge, options, Cpu(500))->eval_image_size, 224);
  options.eval_image_size = 256;
  const auto cut = ResolveRun(kLarge, options, Cpu(500)), enlarged = ResolveRun(kLarge, options, Cpu(32));
  ASSERT_TRUE(cut.ok() && enlarged.ok());
  EXPECT_EQ(cut->batch_image_size, 224);
  EXPECT_EQ(cut->eval_batch_image_size, 256);
  EXPECT_EQ(enlarged->eval_image_size, 256);
  EXPECT_EQ(enlarged->eval_batch_image_size, 32);
  EXPECT_EQ(enlarged->enlarged_from, 32);
  EXPECT_THAT(Refusal(kSmall, options, Cpu(32)),
              HasSubstr("--eval_image_size 256: small takes images of one"));
}

TEST(ResolveRun, RandomCropsHaveTheNetworksSize) {
  TrainOptions options = Auto();
  options.random_resized_crop = true;
  const auto run = ResolveRun(kLarge, options, Cpu(32));
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->batch_image_size, 224) << "not enlarged on the device";
  EXPECT_EQ(run->eval_batch_image_size, 32);
  EXPECT_THAT(run->derived,
              Contains(DerivedSetting{"image_size", "224", "random parts of images up to 32x32"}));
}

TEST(ResolveRun, ImagesGrowIfTheNetworkAcceptsAnySize) {
  TrainOptions options = Auto();
  options.reading.growth = {.from = 160, .first = 1, .end = 2};
  EXPECT_TRUE(ResolveRun(kLarge, options, Cpu(500)).ok());
  EXPECT_THAT(Refusal(kSmall, options, Cpu(32)),
              HasSubstr("--image_size_from 160: small takes images of one"));
  options.image_size = 128;
  EXPECT_THAT(Refusal(kLarge, options, Cpu(500)), HasSubstr("grow to --image_size 128, which is smaller"));
}

TEST(ResolveRun, ReadingHasItsOwnThreads) {
  TrainOptions options = Auto();
  EXPECT_EQ(ResolveRun(kSmall, options, Cpu(32))->read_threads, 8) << "as computing";
  options.read_threads = 3;
  EXPECT_EQ(ResolveRun(kSmall, options, Cpu(32))->read_threads, 3);
}

TEST(ResolveRun, CoresAreSharedByTheWorkersOfANode) {
  MachineFacts machine = Cpu(32);
  machine.local_world_size = 3;
  const auto threads = [&](int given) {
    TrainOptions options = Auto();
    options.threads = given;
    return ResolveRun(kSmall, options, machine)->threads;
  };
  EXPECT_EQ(threads(0), 2);
  EXPECT_EQ(threads(5), 5);
  machine.local_world_size = 16;
  EXPECT_EQ(threads(0), 1);
  machine.openmp_threads = 4;
  EXPECT_EQ(threads(0), 4);
}

TEST(ResolveRun, AutoFollowsTheDevice) {
  const auto cpu = ResolveRun(kSmall, Auto(), Cpu(32)), gpu = ResolveRun(kSmall, Auto(), Gpu(32));
  ASSERT_TRUE(cpu.ok() && gpu.ok());
  EXPECT_EQ(cpu->precision, "fp32");
  EXPECT_FALSE(cpu->device.cuda || cpu->channels_last);
  EXPECT_EQ(gpu->precision, "fp16");
  EXPECT_TRUE(gpu->device.cuda && gpu->channels_last);
  EXPECT_THAT(gpu->derived, ElementsAre(DerivedSetting{"image_size", "32", "as in the data"},
                                        DerivedSetting{"threads", "8", "cores / workers on this node"},
                                        DerivedSetting{"device", "cuda", "auto"},
                                        DerivedSetting{"amp", "fp16", "auto, on cuda:0"},
                                        DerivedSetting{"channels_last", "on", "auto, on cuda:0"}));
  EXPECT_EQ(gpu->Describe(), "images of 32x32, cuda:0, 8 threads, fp16, channels last");
  EXPECT_TRUE(ResolveRun(kLarge, Auto(), Cpu(32))->channels_last);
}

TEST(ResolveRun, FullPrecisionOnAGpuNeedsNoChannelsLast) {
  TrainOptions options = Auto();
  options.float64 = true;
  const auto run = ResolveRun(kSmall, options, Gpu(32));
  EXPECT_EQ(run->precision, "fp32");
  EXPECT_FALSE(run->channels_last);
}

TEST(ResolveRun, ExplicitSettingsAreUsedAsGiven) {
  TrainOptions options = Auto();
  options.amp = "bf16";
  options.channels_last = "on";
  options.device = "cpu";
  options.threads = 1;
  const auto run = ResolveRun(kSmall, options, Gpu(32));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->Describe(), "images of 32x32, cpu, 1 thread, bf16, channels last");
  EXPECT_THAT(run->derived, ElementsAre(DerivedSetting{"image_size", "32", "as in the data"}));
}

TEST(ResolveRun, SettingsThatNeedAGpuAreRefusedOnACpu) {
  TrainOptions graph = Auto(), fp16 = Auto(), cuda = Auto();
  graph.graph = true;
  fp16.amp = "fp16";
  cuda.device = "cuda";
  EXPECT_THAT(Refusal(kSmall, graph, Cpu(32)), HasSubstr("--graph"));
  EXPECT_THAT(Refusal(kSmall, fp16, Cpu(32)), HasSubstr("fp16"));
  EXPECT_THAT(Refusal(kSmall, cuda, Cpu(32)), HasSubstr("no GPU is usable"));
  EXPECT_TRUE(ResolveRun(kSmall, graph, Gpu(32)).ok());
}

}  // namespace
}  // namespace mtrun::trainers

#include "trainers/run/rules/options.h"

#include <filesystem>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "trainers/run/rules/identity.h"

namespace mtrun::trainers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Args = std::vector<std::string>;

const Recipe kRecipe = {{"epochs", "10"}, {"batch_size", "16"}, {"learning_rate", "0.001"}};

class OptionsTest : public ::testing::Test {
 protected:
  absl::StatusOr<TrainOptions> Parse(Args args, int64_t world = 1, EnvironmentMap environment = {}) {
    settings_ = MakeSettings("cnnA", kRecipe);
    const auto read = ReadSettings("cnnA", args, environment, settings_);
    if (!read.ok()) return read.status();
    return MakeOptions(world, settings_);
  }
  std::string ErrorOf(Args args, int64_t world = 1) {
    const auto options = Parse(std::move(args), world);
    return options.ok() ? "no error" : std::string(options.status().message());
  }

  Settings settings_ = MakeSettings("cnnA", kRecipe);
};

TEST_F(OptionsTest, RecipeGivesTheDefaults) {
  const auto o = Parse({"--data", "d"});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->epochs, 10);
  EXPECT_EQ(o->plan, (datasets::BatchPlan{16, 16}));
  EXPECT_EQ(o->schedule.base, 0.001);
  EXPECT_EQ(o->model_folder, "runs/cnnA");
  EXPECT_EQ(o->shuffle, datasets::Shuffle::kFull);
  EXPECT_FALSE(o->augmentation.flip);
}

TEST_F(OptionsTest, OrderIsAFlagOrAName) {
  using datasets::Shuffle;
  EXPECT_EQ(Parse({"--data", "d", "--shuffle"})->shuffle, Shuffle::kFull);
  EXPECT_EQ(Parse({"--data", "d", "--no_shuffle"})->shuffle, Shuffle::kNone);
  EXPECT_EQ(Parse({"--data", "d", "--shuffle", "streams"})->shuffle, Shuffle::kStreams);
  EXPECT_EQ(Parse({"--data", "d"}, 1, {{"MT_SHUFFLE", "streams"}})->shuffle, Shuffle::kStreams);
  EXPECT_THAT(settings_.Yaml("cnnA"), HasSubstr("shuffle: streams"));
  EXPECT_EQ(Parse({"--data", "d", "--shuffle", "fixed_streams"})->shuffle, Shuffle::kFixedStreams);
  EXPECT_EQ(Parse({"--data", "d", "--shuffle", "streams", "--shuffle_window", "3"})->source().shuffle_window,
            3);
}

TEST_F(OptionsTest, UnknownOrderIsNotTakenForAFile) {
  EXPECT_THAT(ErrorOf({"--data", "d", "--shuffle", "fixed_stream"}),
              HasSubstr("--shuffle: \"fixed_stream\" is not allowed; it takes true, false, streams or "
                        "fixed_streams"));
  EXPECT_THAT(ErrorOf({"--data", "d", "picture.png"}), HasSubstr("\"picture.png\" is not a flag"));
}

TEST_F(OptionsTest, ImagesAreReadIdenticallyWithoutAugment) {
  const Args args = {"--data",          "d",   "--random_resized_crop", "--color_jitter", "0.4",
                     "--crop_min_area", "0.25"};
  EXPECT_FALSE(Parse(args)->ReadingNow().changes());
  Args augmented = args;
  augmented.push_back("--augment");
  const Reading reading = Parse(augmented)->source().reading;
  ASSERT_TRUE(reading.crop);
  EXPECT_EQ(reading.crop->min_area, 0.25);
  EXPECT_EQ(reading.jitter.colours, 0.4);
  EXPECT_EQ(reading.decode, datasets::DecodeMode::kFast);
  EXPECT_EQ(Parse({"--data", "d"})->ReadingNow().decode, datasets::DecodeMode::kExact);
}

TEST_F(OptionsTest, GrowthAndWarmUpNeedConsistentEpochs) {
  EXPECT_THAT(ErrorOf({"--data", "d", "--image_size_from", "16"}), HasSubstr("needs --grown_after"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--image_size_from", "16", "--grow_after", "5", "--grown_after", "4"}),
              HasSubstr("--grown_after 4 is before --grow_after 5"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--schedule", "one_cycle", "--warmup_epochs", "1"}),
              HasSubstr("do not give --warmup_epochs"));
}

TEST_F(OptionsTest, OneCycleReplacesTheWarmUpOfTheRecipe) {
  settings_ = MakeSettings("resnet18", {{"warmup_steps", "100"}, {"batch_size", "16"}});
  const Args args = {"--data", "d", "--schedule", "one_cycle"};
  ASSERT_TRUE(ReadSettings("resnet18", args, {}, settings_).ok());
  const auto o = MakeOptions(1, settings_);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->schedule.warmup_steps, 0);
  EXPECT_THAT(settings_.Yaml("resnet18"), HasSubstr("warmup_steps: 0"));
}

TEST_F(OptionsTest, GlobalBatchIsBatchTimesAccumulationTimesConfiguredWorkers) {
  const auto o = Parse({"--data", "d", "--batch_size", "8", "--accumulation_steps", "3"}, 4);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->plan, (datasets::BatchPlan{96, 8}));
  EXPECT_THAT(settings_.Table(), HasSubstr("batch_size x accumulation_steps x 4 workers"));
}

TEST_F(OptionsTest, BatchOfTheRecipeDoesNotDependOnTheWorkers) {
  const auto plan = [&](const Args& more, int64_t world) {
    Recipe recipe = kRecipe;
    recipe.insert(recipe.end(), {{"global_batch", "128"}, {"batch_size", "32"}, {"accumulation_steps", "4"}});
    settings_ = MakeSettings("cnnA", recipe);
    Args args = {"--data", "d"};
    args.insert(args.end(), more.begin(), more.end());
    MT_CHECK(ReadSettings("cnnA", args, {}, settings_).value());
    return MakeOptions(world, settings_)->plan;
  };
  for (const int64_t world : {1, 2, 4}) EXPECT_EQ(plan({}, world), (datasets::BatchPlan{128, 32})) << world;
  EXPECT_THAT(settings_.Table(false), HasSubstr("the recipe's, for any number of workers"));
  EXPECT_EQ(plan({}, 8), (datasets::BatchPlan{128, 16}));
  EXPECT_EQ(plan({}, 5), (datasets::BatchPlan{128, 26}));
  EXPECT_EQ(plan({}, 1000), (datasets::BatchPlan{128, 1}));
  // The commands of earlier programs: --batch_size is that of a worker.
  EXPECT_EQ(plan({"--batch_size", "32"}, 2), (datasets::BatchPlan{256, 32}));
  EXPECT_EQ(plan({"--accumulation_steps", "1"}, 2), (datasets::BatchPlan{64, 32}));
  EXPECT_EQ(plan({"--global_batch", "64"}, 2), (datasets::BatchPlan{64, 8}));
}

TEST_F(OptionsTest, GivenGlobalBatchIsKept) {
  EXPECT_EQ(Parse({"--data", "d", "--batch_size", "4", "--global_batch", "16"}, 3)->plan,
            (datasets::BatchPlan{16, 4}));
}

TEST_F(OptionsTest, GlobalBatchIsDividedAmongWorkers) {
  EXPECT_EQ(Parse({"--data", "d", "--global_batch", "16"}, 1)->plan, (datasets::BatchPlan{16, 16}));
  EXPECT_EQ(Parse({"--data", "d", "--global_batch", "16"}, 3)->plan, (datasets::BatchPlan{16, 6}));
  EXPECT_EQ(Parse({"--data", "d", "--global_batch", "16"}, 40)->plan, (datasets::BatchPlan{16, 1}));
}

TEST_F(OptionsTest, ContinuedRunKeepsItsBatchWithAnyNumberOfWorkers) {
  const datasets::BatchPlan checkpoint{32, 16};
  const auto plan = [&](Args args, int64_t world) {
    settings_ = MakeSettings("cnnA", kRecipe);
    MT_CHECK(ReadSettings("cnnA", args, {}, settings_).value());
    AdoptBatch(checkpoint, settings_);
    return MakeOptions(world, settings_)->plan;
  };
  for (const int64_t world : {1, 2, 4, 40}) {
    EXPECT_EQ(plan({"--data", "d"}, world), checkpoint) << world << " workers";
    EXPECT_EQ(plan({"--data", "d", "--global_batch", "32"}, world), checkpoint) << world << " workers";
  }
  EXPECT_EQ(plan({"--data", "d", "--batch_size", "8"}, 4), (datasets::BatchPlan{32, 8}));
  EXPECT_EQ(plan({"--data", "d", "--global_batch", "64"}, 4), (datasets::BatchPlan{64, 16}));
}

TEST_F(OptionsTest, MicroBatchNeverExceedsTheGlobalBatch) {
  EXPECT_EQ(Parse({"--data", "d", "--batch_size", "64", "--global_batch", "10"})->plan,
            (datasets::BatchPlan{10, 10}));
}

TEST_F(OptionsTest, ExcessiveNumbersAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {{"batch_size", "4611686018427387904"},
                                                       {"accumulation_steps", "4611686018427387904"},
                                                       {"global_batch", "9223372036854775807"},
                                                       {"threads", "4294967297"},
                                                       {"keep_checkpoints", "4294967296"},
                                                       {"image_size", "65536"},
                                                       {"eval_image_size", "65536"},
                                                       {"image_size_from", "4294967328"},
                                                       {"epochs", "9223372036854775807"},
                                                       {"schedule_epochs", "9223372036854775807"},
                                                       {"warmup_epochs", "9223372036854775807"},
                                                       {"cache_gib", "1e10"},
                                                       {"fetch_ahead_gib", "1e10"},
                                                       {"checkpoint_seconds", "1e10"}};
  for (const auto& [name, value] : wrong) {
    EXPECT_THAT(ErrorOf({"--data", "d", absl::StrCat("--", name), value}),
                AllOf(HasSubstr(absl::StrCat("--", name)), HasSubstr(value), HasSubstr(" to ")));
  }
}

TEST_F(OptionsTest, StepOfTooManyImagesIsRefused) {
  const std::string most = "1073741824";
  const Args halves = {"--data", "d", "--batch_size", "536870912"};
  EXPECT_EQ(Parse(halves, 2)->plan, (datasets::BatchPlan{1 << 30, 1 << 29}));
  const std::string sentence =
      "--batch_size 536870912 x --accumulation_steps 1 x 3 workers is more than " + most;
  EXPECT_THAT(ErrorOf(halves, 3), HasSubstr(sentence));
  const Args all = {"--data", "d", "--batch_size", most, "--accumulation_steps", most};
  EXPECT_THAT(ErrorOf(all), HasSubstr("--batch_size"));
  EXPECT_THAT(ErrorOf({"--data", "d"}, std::numeric_limits<int64_t>::max()), HasSubstr("--batch_size"));
  // A given global batch is divided among the workers, however many there are.
  EXPECT_EQ(Parse({"--data", "d", "--global_batch", "16", "--accumulation_steps", most}, 1 << 30)->plan,
            (datasets::BatchPlan{16, 1}));
}

TEST_F(OptionsTest, FlagOverridesEnvironmentOverridesFileOverridesRecipe) {
  const std::string folder = *MakeTemporaryFolder("mtrun_options_");
  const std::string file = folder + "/c.yaml";
  ASSERT_TRUE(WriteFileAtomically(
                  file, "mtrun:\n  nproc_per_node: 2\ncnnA:\n  epochs: 3\n  seed: 4\n  learning_rate: 0.5\n")
                  .ok());
  const auto o =
      Parse({"--data", "d", "--config", file, "--epochs=7"}, 1, {{"MT_EPOCHS", "5"}, {"MT_SEED", "6"}});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->epochs, 7);
  EXPECT_EQ(o->seed, 6u);
  EXPECT_EQ(o->schedule.base, 0.5);
  std::filesystem::remove_all(folder);
}

TEST_F(OptionsTest, SavedTableIsReadBack) {
  const auto first = Parse({"--data", "d", "--momentum", "0.9", "--nesterov", "--global_batch", "48"}, 3);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string folder = *MakeTemporaryFolder("mtrun_options_");
  ASSERT_TRUE(WriteFileAtomically(folder + "/config.yaml", settings_.Yaml("cnnA")).ok());
  const auto again = Parse({"--config", folder + "/config.yaml"}, 1);
  ASSERT_TRUE(again.ok()) << again.status();
  const RunIdentity before = MakeIdentity("cnnA", "d", *first, settings_, {}, {.draws = true});
  EXPECT_EQ(MakeIdentity("cnnA", "d", *again, settings_, {}, {.draws = true}).run, before.run);
  std::filesystem::remove_all(folder);
}

TEST_F(OptionsTest, AugmentEnablesFlipAndCrop) {
  const auto on = Parse({"--data", "d", "--augment", "--crop_padding", "2"});
  EXPECT_TRUE(on->augmentation.flip);
  EXPECT_EQ(on->augmentation.crop_padding, 2);
  const auto off = Parse({"--data", "d", "--augment=false", "--crop_padding", "2"});
  EXPECT_FALSE(off->augmentation.flip);
  EXPECT_EQ(off->augmentation.crop_padding, 0);
}

TEST_F(OptionsTest, WarpsRequireAugment) {
  const auto on = Parse({"--data", "d", "--augment", "--rotation", "15", "--erasing", "0.5"});
  EXPECT_EQ(on->warps.rotation, 15);
  EXPECT_EQ(on->warps.erasing, 0.5);
  EXPECT_FALSE(Parse({"--data", "d", "--rotation", "15"})->warps.any());
}

TEST_F(OptionsTest, SyncBatchNormCoversAllMicroBatchesByDefault) {
  EXPECT_EQ(Parse({"--data", "d"})->sync_micro_batches, 0);
  EXPECT_EQ(Parse({"--data", "d", "--sync_bn", "--batch_size", "4"}, 3)->sync_micro_batches, 3);
  EXPECT_EQ(Parse({"--data", "d", "--sync_bn", "--sync_bn_micro_batches", "2"}, 3)->sync_micro_batches, 2);
}

TEST_F(OptionsTest, OptionKeepsItsEarlierName) {
  EXPECT_EQ(Parse({"--data", "d", "--sync_bn", "--sync_bn_shards", "2"}, 3)->sync_micro_batches, 2);
  EXPECT_EQ(Parse({"--data", "d", "--sync_bn"}, 3, {{"MT_SYNC_BN_SHARDS", "2"}})->sync_micro_batches, 2);
}

TEST_F(OptionsTest, ProgramCanAddSettings) {
  Settings settings = MakeSettings(
      "vit", {}, {{.spec = {.name = "dropout", .kind = SettingSpec::Kind::kDouble}, .scope = Scope::kRun}},
      {{"model_folder", "checkpoint"}});
  ASSERT_TRUE(ReadSettings("vit", {"--dropout", "0.2", "--checkpoint", "there"}, {}, settings).ok());
  EXPECT_EQ(settings.Double("dropout"), 0.2);
  EXPECT_EQ(settings.Text("model_folder"), "there");
}

/// mtrun ends a job for exit status 3 of one trainer, and does not retry status 2.
TEST_F(OptionsTest, DrainExitCodeWithAnotherMeaningIsRefused) {
  for (const std::string code : {"2", "3"}) {
    EXPECT_THAT(ErrorOf({"--data", "d", "--drain_exit_code", code}),
                HasSubstr(absl::StrCat("--drain_exit_code ", code, " has another meaning to mtrun")));
  }
  for (const std::string code : {"0", "1", "4", "85", "255"})
    EXPECT_TRUE(Parse({"--data", "d", "--drain_exit_code", code}).ok()) << code;
}

TEST_F(OptionsTest, ErrorsNameTheProblem) {
  EXPECT_THAT(ErrorOf({"--data", "d", "--amp", "bf16", "--precision", "float64"}),
              HasSubstr("exclude each other"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--rand_magnitude", "31"}), HasSubstr("30"));
  EXPECT_THAT(ErrorOf({}), HasSubstr("--data is missing"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--epoch_count", "2"}), HasSubstr("unknown flag --epoch_count"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--batchsize", "2"}), HasSubstr("--batch_size"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--epochs", "0"}), HasSubstr("from 1 to 1000000000"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--optimizer", "rmsprop"}), HasSubstr("sgd, adam, adamw"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--nesterov"}), HasSubstr("momentum"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--schedule", "one_cycle", "--warmup_steps", "5"}),
              HasSubstr("one_cycle"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--graph", "--sync_bn"}), HasSubstr("--graph and --sync_bn exclude"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--graph", "--image_size_from", "16", "--grown_after", "4"}),
              HasSubstr("--graph and --image_size_from exclude each other"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--config", "/none.yaml"}), HasSubstr("/none.yaml"));
}

TEST_F(OptionsTest, MixingIsAnAugmentation) {
  const auto o = Parse({"--data", "d", "--augment", "--mixup", "0.2", "--cutmix", "1"});
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->mixing, (Mixing{0.2, 1}));
  EXPECT_FALSE(Parse({"--data", "d", "--mixup", "0.2"})->mixing.any());
  EXPECT_THAT(ErrorOf({"--data", "d", "--augment", "--cutmix", "0.001"}), HasSubstr("give 0, or 0.01 to 1"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--augment", "--cutmix", "2"}), HasSubstr("cutmix"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--augment", "--mixup", "1", "--sync_bn"}),
              HasSubstr("--sync_bn excludes --mixup and --cutmix"));
}

TEST_F(OptionsTest, AugmentationsWithoutAugmentAreNamed) {
  ASSERT_TRUE(Parse({"--data", "d", "--rotation", "10", "--mixup", "0.2"}).ok());
  EXPECT_EQ(DescribeUnusedAugmentation(settings_),
            "--rotation, --mixup: without --augment training images stay as they are");
  ASSERT_TRUE(Parse({"--data", "d", "--rotation", "10", "--augment"}).ok());
  EXPECT_EQ(DescribeUnusedAugmentation(settings_), "");
  ASSERT_TRUE(Parse({"--data", "d"}).ok());
  EXPECT_EQ(DescribeUnusedAugmentation(settings_), "");
}

TEST_F(OptionsTest, FlagsOfAModeNeedTheMode) {
  EXPECT_THAT(ErrorOf({"--data", "d", "--out", "o"}),
              AllOf(HasSubstr("--out counts only with --predict and --evaluate"),
                    HasSubstr("a training writes to --model_folder")));
  EXPECT_THAT(ErrorOf({"--data", "d", "--weights_of", "r"}), HasSubstr("--init_from"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--top_k", "3", "--evaluate", "r"}), HasSubstr("only with --predict"));
  EXPECT_THAT(ErrorOf({"--data", "d", "--onnx"}), HasSubstr("--onnx counts only with --export"));
  EXPECT_TRUE(Parse({"--data", "d", "--out", "o", "--evaluate", "r"}).ok());
  EXPECT_TRUE(Parse({"--data", "d", "--top_k", "3", "--weights_of", "r", "--predict", "f"}).ok());
  EXPECT_TRUE(Parse({"--data", "d"}, 1, {{"MT_OUT", "o"}}).ok());  // meant for another program, too
}

TEST_F(OptionsTest, HelpRequiresNothingElse) {
  const auto wanted = ReadSettings("cnnA", {"--help"}, {}, settings_);
  ASSERT_TRUE(wanted.ok());
  EXPECT_FALSE(*wanted);
  EXPECT_THAT(settings_.Help(), HasSubstr("--global_batch"));
}

}  // namespace
}  // namespace mtrun::trainers

#include "trainers/run/rules/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace mtrun::trainers {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using Args = std::vector<std::string>;
using SettingKind = SettingSpec::Kind;

const std::vector<Option>& OwnOptions() {
  static const auto& own = *new std::vector<Option>{
      {.spec = {.name = "words", .default_text = "x"}, .scope = Scope::kRun},
      {.spec = {.name = "layout", .default_text = "x"}, .scope = Scope::kGeneration},
      {.spec = {.name = "place", .default_text = "x"}, .scope = Scope::kFree},
      {.spec = {.name = "flag", .kind = SettingKind::kBool, .default_text = "false"}, .scope = Scope::kRun},
      {.spec = {.name = "late", .default_text = "new"}, .scope = Scope::kRun, .since = "old"}};
  return own;
}

/// Returns the identity of a worker with flags `args`, added to flags that enable all dependent options.
RunIdentity IdentityOf(Args args) {
  args.insert(args.begin(), {"--data", "d", "--augment", "--sync_bn", "--momentum", "0.9"});
  Settings settings = MakeSettings("toy", {}, OwnOptions());
  const auto read = ReadSettings("toy", args, {}, settings);
  EXPECT_TRUE(read.ok()) << read.status();
  const auto options = MakeOptions(/*configured_world=*/6, settings);
  EXPECT_TRUE(options.ok()) << options.status();
  return MakeIdentity("toy", "digest", *options, settings, OwnOptions(), {.draws = true, .decodes = true});
}

/// Returns a value of the option other than `from`.
std::string OtherValue(const SettingSpec& spec, const std::string& from) {
  if (spec.kind == SettingKind::kBool) return from == "true" ? "false" : "true";
  for (const std::string& choice : spec.choices) {
    if (choice != from && choice != "auto") return choice;
  }
  if (spec.kind == SettingKind::kString) return "something else";
  if (spec.kind == SettingKind::kDouble) return from == "0.5" ? "0.25" : "0.5";
  return from == "7" ? "8" : "7";
}

/// Covers every option, including future ones: a change affects exactly what the option's scope says.
TEST(Identity, EveryOptionAffectsOnlyItsScope) {
  int seen = 0;
  for (const Option& option : AllOptions("toy", OwnOptions())) {
    const std::string& name = option.spec.name;
    if (name == "help" || name == "config") continue;  // they request something else
    if (name == "validation_share") continue;  // belongs to the run if it is given; otherwise not recorded
    SCOPED_TRACE(name);
    const std::string from = name == "augment" || name == "sync_bn" ? "true" : option.spec.default_text;
    Args others;
    const bool without_groups = name == "graph" || name == "mixup" || name == "cutmix";
    if (without_groups) others.push_back("--sync_bn=false");             // they exclude each other
    if (name == "image_size_from") others.push_back("--grown_after=3");  // it requires that
    if (name == "onnx") others.push_back("--export=f");
    const bool of_mode = name == "out" || name == "top_k" || name == "weights_of";
    if (of_mode) others.push_back("--predict=f");
    const RunIdentity usual = IdentityOf(others);
    others.push_back(absl::StrCat("--", name, "=", OtherValue(option.spec, from)));
    const RunIdentity changed = IdentityOf(others);
    EXPECT_EQ(changed.run != usual.run, option.scope == Scope::kRun);
    EXPECT_EQ(changed.generation != usual.generation, option.scope == Scope::kGeneration);
    ++seen;
  }
  EXPECT_GT(seen, 40);
}

TEST(Identity, ValidationShareIsRecordedOnlyIfGiven) {
  EXPECT_EQ(IdentityOf({"--validation_share", "0.2"}).run.at("validation_share"), "0.2");
  EXPECT_EQ(IdentityOf({}).run.count("validation_share"), 0u);  // as in checkpoints of earlier releases
}

TEST(Identity, MatchesTheNamesAndTextsInCheckpoints) {
  const RunIdentity identity = IdentityOf({"--batch_size", "4", "--optimizer", "adamw", "--momentum", "0"});
  EXPECT_EQ(identity.run.at("program"), "toy");
  EXPECT_EQ(identity.run.at("data"), "digest");
  EXPECT_EQ(identity.run.at("global_batch"), "24");
  EXPECT_EQ(identity.run.at("optimizer"), "2");
  EXPECT_EQ(identity.run.at("float64"), "0");
  EXPECT_EQ(identity.run.at("flip"), "1");
  EXPECT_EQ(identity.run.at("sync_bn_shards"), "6");
  EXPECT_EQ(identity.run.at("learning_rate"), "0.001");
  EXPECT_EQ(identity.run.at("words"), "x");
}

/// An option that earlier releases did not have is recorded only if it differs from their behaviour.
TEST(Identity, NewerOptionIsRecordedOnlyIfItDiffers) {
  const RunIdentity usual = IdentityOf({}), wide = IdentityOf({"--shuffle_window", "9"});
  EXPECT_EQ(usual.run.count("shuffle_window"), 0u);
  EXPECT_EQ(wide.run.at("shuffle_window"), "9");
  EXPECT_THAT(CheckContinues(wide, usual.run).message(),
              HasSubstr("shuffle_window is 9, but is missing in the checkpoint"));
  EXPECT_THAT(CheckContinues(usual, wide.run).message(),
              HasSubstr("shuffle_window is 9 in the checkpoint, but is not set now"));
}

// A row that was added as CONTRIBUTING.md says, without Since, refused every checkpoint of the releases before it.
TEST(Identity, NewOptionAtItsDefaultContinuesCheckpointsOfEarlierReleases) {
  const RunIdentity usual = IdentityOf({}), changed = IdentityOf({"--words", "y"});
  checkpoints::Identity earlier = usual.run;
  ASSERT_EQ(earlier.erase("words"), 1u);
  EXPECT_TRUE(CheckContinues(usual, earlier).ok()) << CheckContinues(usual, earlier);
  EXPECT_TRUE(CheckContinues(IdentityOf({"--words", "x"}), earlier).ok()) << "the default may be given, too";
  EXPECT_THAT(CheckContinues(changed, earlier).message(),
              HasSubstr("words is y, but is missing in the checkpoint"));
  EXPECT_THAT(CheckContinues(usual, changed.run).message(),
              HasSubstr("words is x, but the checkpoint has y"));
  earlier = usual.run;
  ASSERT_EQ(earlier.erase("late"), 1u);
  EXPECT_THAT(CheckContinues(usual, earlier).message(), HasSubstr("late is "))
      << "the run that made it had \"old\"";
  EXPECT_TRUE(CheckContinues(IdentityOf({"--late", "old"}), earlier).ok());
}

TEST(Identity, OrderMatchesTheNumbersInCheckpoints) {
  EXPECT_EQ(IdentityOf({}).run.at("shuffle"), "1");
  EXPECT_EQ(IdentityOf({"--shuffle=false"}).run.at("shuffle"), "0");
  EXPECT_EQ(IdentityOf({"--shuffle", "streams"}).run.at("shuffle"), "2");
  EXPECT_EQ(IdentityOf({"--shuffle", "fixed_streams"}).run.at("shuffle"), "3");
}

TEST(Identity, ValueIsUsedAsGiven) {
  const std::string odd = "/data/a b=c \"d\"";
  const RunIdentity identity = IdentityOf({"--words", odd, "--init_from", "a b", "--place", odd});
  EXPECT_EQ(identity.run.at("words"), odd);
  EXPECT_EQ(identity.run.size(), IdentityOf({}).run.size());
  EXPECT_NE(identity.run, IdentityOf({"--words", "/data/a"}).run);
}

/// A job can continue with more epochs, on another device, or in another precision.
TEST(Identity, RestartMayChangeSettingsThatAGenerationMustShare) {
  const RunIdentity first = IdentityOf({"--epochs", "2", "--amp", "bf16"});
  const RunIdentity second = IdentityOf({"--epochs", "3", "--amp", "off", "--device", "cpu"});
  EXPECT_TRUE(checkpoints::CheckSameRun(second.run, first.run, second.not_of_run).ok());
  EXPECT_NE(EncodeClaim(first, "1"), EncodeClaim(second, "1"));
}

/// Earlier releases stored more in their checkpoints; settings that are no longer part of a run are ignored.
TEST(Identity, AcceptsCheckpointsOfEarlierReleases) {
  const RunIdentity now = IdentityOf({});
  checkpoints::Identity earlier = now.run;
  earlier.insert({{"amp", "bf16"}, {"epochs", "3"}, {"max_steps", "9"}, {"place", "there"}});
  EXPECT_TRUE(checkpoints::CheckSameRun(now.run, earlier, now.not_of_run).ok());
  earlier["seed"] = "5";
  EXPECT_THAT(std::string(checkpoints::CheckSameRun(now.run, earlier, now.not_of_run).message()),
              HasSubstr("seed is 0, but the checkpoint has 5"));
}

/// Continuing with other random numbers is an error, unless the user states that it is intended.
TEST(Identity, CheckpointWithOtherRandomNumbersIsContinuedOnlyOnRequest) {
  const RunIdentity now = IdentityOf({});
  checkpoints::Identity earlier = now.run;
  EXPECT_TRUE(CheckContinues(now, earlier).ok());
  earlier.erase(kRandomStreams);
  EXPECT_THAT(
      std::string(CheckContinues(now, earlier).message()),
      AllOf(HasSubstr("of version 1, but this mtrun's are of version 2"), HasSubstr("--random_streams new")));
  EXPECT_TRUE(CheckContinues(IdentityOf({"--random_streams", "new"}), earlier).ok());
  RunIdentity draws_nothing = now;
  draws_nothing.run.erase(kRandomStreams);
  EXPECT_TRUE(CheckContinues(draws_nothing, earlier).ok());
  earlier["seed"] = "5";
  EXPECT_THAT(std::string(CheckContinues(now, earlier).message()), HasSubstr("seed is 0"));
}

/// Fast decoding had other pixels before: such a run continues, and says so.
TEST(Identity, CheckpointWithOtherPixelsIsContinuedAndNamed) {
  const RunIdentity exact = IdentityOf({}), fast = IdentityOf({"--random_resized_crop"});
  EXPECT_EQ(exact.run.count(kFastPixels), 0u);
  EXPECT_EQ(fast.run.at(kFastPixels), "2");
  EXPECT_EQ(DescribeOtherPixels(fast, fast.run), "");
  EXPECT_EQ(DescribeOtherPixels(exact, exact.run), "");
  checkpoints::Identity earlier = fast.run;
  ASSERT_EQ(earlier.erase(kFastPixels), 1u);
  EXPECT_TRUE(CheckContinues(fast, earlier).ok()) << CheckContinues(fast, earlier);
  EXPECT_THAT(DescribeOtherPixels(fast, earlier),
              AllOf(HasSubstr("began with version 1 of --decode fast"), HasSubstr("has version 2")));
  earlier[kFastPixels] = "3";
  EXPECT_TRUE(CheckContinues(fast, earlier).ok()) << CheckContinues(fast, earlier);
  EXPECT_THAT(DescribeOtherPixels(fast, earlier), HasSubstr("began with version 3"));
}

/// A captured update rounds the learning rate to float32, and a member that looks for a checkpoint makes
/// other collective calls than one that does not.
TEST(Identity, MembersShareSettingsThatChangeTheirBitsOrCalls) {
  const RunIdentity usual = IdentityOf({"--sync_bn=false"});
  for (const char* flag : {"--graph", "--resume=false"}) {
    const RunIdentity other = IdentityOf({"--sync_bn=false", flag});
    EXPECT_NE(EncodeClaim(other, "1"), EncodeClaim(usual, "1")) << flag;
    EXPECT_TRUE(CheckContinues(other, usual.run).ok()) << flag << ": a restart may differ";
  }
}

TEST(Identity, DifferencesAreNamedWithTheirRanks) {
  const std::string bf16 = EncodeClaim(IdentityOf({"--amp", "bf16"}), "0.1.0");
  const std::string off = EncodeClaim(IdentityOf({"--words", "a b"}), "0.1.0");
  EXPECT_EQ(DescribeDifferences({bf16, bf16}), "");
  EXPECT_EQ(DescribeDifferences({bf16, off, bf16}),
            "amp: bf16 (ranks 0, 2), off (rank 1); words: a b (rank 1), x (ranks 0, 2)");
}

/// A member with a checkpoint uses its batch; a member without one derives it.
TEST(Identity, DifferentBatchesAreRefusedWithAdvice) {
  const std::string few = EncodeClaim(IdentityOf({"--global_batch", "8"}), "0.1.0");
  const std::string many = EncodeClaim(IdentityOf({"--global_batch", "12"}), "0.1.0");
  EXPECT_THAT(DescribeDifferences({few, many}),
              AllOf(HasSubstr("global_batch: 12 (rank 1), 8 (rank 0)"),
                    EndsWith(": give the same --global_batch and --batch_size everywhere")));
}

TEST(Identity, DifferentVersionsHideOtherDifferences) {
  const std::string older = EncodeClaim(IdentityOf({"--amp", "bf16"}), "0.1.0");
  const std::string newer = EncodeClaim(IdentityOf({}), "0.2.0");
  const std::string text = DescribeDifferences({older, newer});
  EXPECT_EQ(text, "the version of mtrun: 0.1.0 (rank 0), 0.2.0 (rank 1)");
  EXPECT_THAT(DescribeDifferences({older, "what is no claim"}), HasSubstr("nothing (rank 1)"));
}

}  // namespace
}  // namespace mtrun::trainers

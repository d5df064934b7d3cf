#include "trainers/run/identity.h"

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
      {.spec = {.name = "flag", .kind = SettingKind::kBool, .default_text = "false"}, .scope = Scope::kRun}};
  return own;
}

/// Of a worker whose flags are `args`, after all that makes the others count.
RunIdentity IdentityOf(Args args) {
  args.insert(args.begin(), {"--data", "d", "--augment", "--sync_bn", "--momentum", "0.9"});
  Settings settings = MakeSettings("toy", {}, OwnOptions());
  const auto read = ReadSettings("toy", args, {}, settings);
  EXPECT_TRUE(read.ok()) << read.status();
  const auto options = MakeOptions(/*configured_world=*/6, settings);
  EXPECT_TRUE(options.ok()) << options.status();
  return MakeIdentity("toy", "digest", *options, settings, OwnOptions(), /*draws=*/true);
}

/// A value of the option that is not `from`.
std::string OtherValue(const SettingSpec& spec, const std::string& from) {
  if (spec.kind == SettingKind::kBool) return from == "true" ? "false" : "true";
  for (const std::string& choice : spec.choices) {
    if (choice != from && choice != "auto") return choice;
  }
  if (spec.kind == SettingKind::kString) return "something else";
  if (spec.kind == SettingKind::kDouble) return from == "0.5" ? "0.25" : "0.5";
  return from == "7" ? "8" : "7";
}

/// Every option, those that are added later too: a change shows where its scope says, and nowhere else.
TEST(Identity, EveryOptionCountsAsItsScopeSays) {
  int seen = 0;
  for (const Option& option : AllOptions("toy", OwnOptions())) {
    const std::string& name = option.spec.name;
    if (name == "help" || name == "config") continue;  // they ask for something else
    if (name == "validation_share") continue;          // of the run where it is given, else said by nobody
    SCOPED_TRACE(name);
    const std::string from = name == "augment" || name == "sync_bn" ? "true" : option.spec.default_text;
    Args others;
    if (name == "graph") others.push_back("--sync_bn=false");            // they exclude each other
    if (name == "image_size_from") others.push_back("--grown_after=3");  // it needs that
    const RunIdentity usual = IdentityOf(others);
    others.push_back(absl::StrCat("--", name, "=", OtherValue(option.spec, from)));
    const RunIdentity changed = IdentityOf(others);
    EXPECT_EQ(changed.run != usual.run, option.scope == Scope::kRun);
    EXPECT_EQ(changed.generation != usual.generation, option.scope == Scope::kGeneration);
    ++seen;
  }
  EXPECT_GT(seen, 40);
}

TEST(Identity, AValidationShareIsOfTheRunThatHasOne) {
  EXPECT_EQ(IdentityOf({"--validation_share", "0.2"}).run.at("validation_share"), "0.2");
  EXPECT_EQ(IdentityOf({}).run.count("validation_share"), 0u);  // as in checkpoints of earlier releases
}

TEST(Identity, HasTheNamesAndTextsThatCheckpointsHave) {
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

/// What an earlier release could not say stands in no checkpoint until it says something else.
TEST(Identity, ALaterOptionIsNamedOnlyWhereItIsNotWhatItWas) {
  const RunIdentity usual = IdentityOf({}), wide = IdentityOf({"--shuffle_window", "9"});
  EXPECT_EQ(usual.run.count("shuffle_window"), 0u);
  EXPECT_EQ(wide.run.at("shuffle_window"), "9");
  EXPECT_FALSE(CheckContinues(wide, usual.run).ok());
  EXPECT_FALSE(CheckContinues(usual, wide.run).ok());
}

TEST(Identity, TheOrderHasTheNumbersThatCheckpointsHave) {
  EXPECT_EQ(IdentityOf({}).run.at("shuffle"), "1");
  EXPECT_EQ(IdentityOf({"--shuffle=false"}).run.at("shuffle"), "0");
  EXPECT_EQ(IdentityOf({"--shuffle", "streams"}).run.at("shuffle"), "2");
  EXPECT_EQ(IdentityOf({"--shuffle", "fixed_streams"}).run.at("shuffle"), "3");
}

TEST(Identity, AValueIsTakenAsItIs) {
  const std::string odd = "/data/a b=c \"d\"";
  const RunIdentity identity = IdentityOf({"--words", odd, "--init_from", "a b", "--place", odd});
  EXPECT_EQ(identity.run.at("words"), odd);
  EXPECT_EQ(identity.run.size(), IdentityOf({}).run.size());
  EXPECT_NE(identity.run, IdentityOf({"--words", "/data/a"}).run);
}

/// A job may go on with more epochs, on another device, in another precision.
TEST(Identity, ARestartMayChangeWhatAGenerationMustShare) {
  const RunIdentity first = IdentityOf({"--epochs", "2", "--amp", "bf16"});
  const RunIdentity second = IdentityOf({"--epochs", "3", "--amp", "off", "--device", "cpu"});
  EXPECT_TRUE(checkpoints::CheckSameRun(second.run, first.run, second.not_of_run).ok());
  EXPECT_NE(EncodeClaim(first, "1"), EncodeClaim(second, "1"));
}

/// Earlier releases kept more in their checkpoints: what is no part of a run today is passed over.
TEST(Identity, TakesTheCheckpointsOfEarlierReleases) {
  const RunIdentity now = IdentityOf({});
  checkpoints::Identity earlier = now.run;
  earlier.insert({{"amp", "bf16"}, {"epochs", "3"}, {"max_steps", "9"}, {"place", "there"}});
  EXPECT_TRUE(checkpoints::CheckSameRun(now.run, earlier, now.not_of_run).ok());
  earlier["seed"] = "5";
  EXPECT_THAT(std::string(checkpoints::CheckSameRun(now.run, earlier, now.not_of_run).message()),
              HasSubstr("seed is 0, the checkpoint has 5"));
}

/// Who continues with other random numbers is told so, or says that this is meant.
TEST(Identity, ACheckpointWithOtherRandomNumbersIsContinuedOnPurposeAlone) {
  const RunIdentity now = IdentityOf({});
  checkpoints::Identity earlier = now.run;
  EXPECT_TRUE(CheckContinues(now, earlier).ok());
  earlier.erase(kRandomStreams);
  EXPECT_THAT(std::string(CheckContinues(now, earlier).message()),
              AllOf(HasSubstr("of version 1, this mtrun's of version 2"), HasSubstr("--random_streams new")));
  EXPECT_TRUE(CheckContinues(IdentityOf({"--random_streams", "new"}), earlier).ok());
  RunIdentity draws_nothing = now;
  draws_nothing.run.erase(kRandomStreams);
  EXPECT_TRUE(CheckContinues(draws_nothing, earlier).ok());
  earlier["seed"] = "5";
  EXPECT_THAT(std::string(CheckContinues(now, earlier).message()), HasSubstr("seed is 0"));
}

/// A captured update rounds the learning rate to float32, and who looks for a checkpoint makes other
/// collective calls than who does not.
TEST(Identity, MembersShareWhatChangesTheirBitsOrTheirCalls) {
  const RunIdentity usual = IdentityOf({"--sync_bn=false"});
  for (const char* flag : {"--graph", "--resume=false"}) {
    const RunIdentity other = IdentityOf({"--sync_bn=false", flag});
    EXPECT_NE(EncodeClaim(other, "1"), EncodeClaim(usual, "1")) << flag;
    EXPECT_TRUE(CheckContinues(other, usual.run).ok()) << flag << ": a restart may differ";
  }
}

TEST(Identity, DifferencesAreNamedWithWhoHasWhat) {
  const std::string bf16 = EncodeClaim(IdentityOf({"--amp", "bf16"}), "0.1.0");
  const std::string off = EncodeClaim(IdentityOf({"--words", "a b"}), "0.1.0");
  EXPECT_EQ(DescribeDifferences({bf16, bf16}), "");
  EXPECT_EQ(DescribeDifferences({bf16, off, bf16}),
            "amp: bf16 (ranks 0, 2), off (rank 1); words: a b (rank 1), x (ranks 0, 2)");
}

/// Who has a checkpoint takes its batch, who has none derives one.
TEST(Identity, WhereBatchesDifferItIsSaidHowTheyDoNot) {
  const std::string few = EncodeClaim(IdentityOf({"--global_batch", "8"}), "0.1.0");
  const std::string many = EncodeClaim(IdentityOf({"--global_batch", "12"}), "0.1.0");
  EXPECT_THAT(DescribeDifferences({few, many}),
              AllOf(HasSubstr("global_batch: 12 (rank 1), 8 (rank 0)"),
                    EndsWith(": give --global_batch and --batch_size, the same everywhere")));
}

TEST(Identity, VersionsThatDifferAreAllThatIsSaid) {
  const std::string older = EncodeClaim(IdentityOf({"--amp", "bf16"}), "0.1.0");
  const std::string newer = EncodeClaim(IdentityOf({}), "0.2.0");
  const std::string text = DescribeDifferences({older, newer});
  EXPECT_EQ(text, "the version of mtrun: 0.1.0 (rank 0), 0.2.0 (rank 1)");
  EXPECT_THAT(DescribeDifferences({older, "what is no claim"}), HasSubstr("nothing (rank 1)"));
}

}  // namespace
}  // namespace mtrun::trainers

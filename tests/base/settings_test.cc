#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/strange_flag.h"

namespace mtrun {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Kind = SettingSpec::Kind;

std::vector<SettingSpec> Specs() {
  return {
      {.name = "batch_size",
       .kind = Kind::kInt,
       .default_text = "16",
       .help = "Samples of a micro-batch.",
       .group = "Batch",
       .letter = 'b',
       .min = 1},
      {.name = "learning_rate",
       .kind = Kind::kDouble,
       .default_text = "0.001",
       .help = "Step width.",
       .group = "Batch",
       .min = 0},
      {.name = "shuffle",
       .kind = Kind::kBool,
       .default_text = "true",
       .help = "Shuffle the samples.",
       .group = "Data"},
      {.name = "data", .help = "Packed data set.", .group = "Data"},
      {.name = "device",
       .default_text = "auto",
       .help = "Where to train.",
       .group = "Data",
       .choices = {"auto", "cpu", "cuda"},
       .aliases = {"dev"}},
      {.name = "rdzv_id", .default_text = "none", .help = "Job.", .group = "Job"},
      {.name = "rdzv_endpoint", .help = "Service.", .group = "Job", .hints = {"coordinator"}},
      {.name = "dataset", .help = "A newer name.", .group = "Data", .yields = true},
  };
}

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override { folder_ = *MakeTemporaryFolder("mtrun-settings-"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File(std::string_view text) {
    const std::string path = folder_ + "/config.yaml";
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return path;
  }
  absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& args) {
    return settings_.ParseFlags(args, /*positionals_allowed=*/true);
  }
  std::string Refusal(std::string_view file) {
    const absl::Status status = settings_.ApplyYaml(File(file), "cnnA");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << file;
    return std::string(status.message());
  }
  std::string Complaint(const std::vector<std::string>& args) {
    const auto parsed = Parse(args);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(parsed.status().message());
  }

  std::string folder_;
  Settings settings_{"cnnA", Specs()};
};

TEST_F(SettingsTest, DefaultsHoldUntilAFlagIsGiven) {
  EXPECT_EQ(settings_.Int("batch_size"), 16);
  EXPECT_FALSE(settings_.IsSet("data"));
  ASSERT_TRUE(Parse({"--batch_size", "4", "--data=/d"}).ok());
  EXPECT_EQ(settings_.Int("batch_size"), 4);
  EXPECT_EQ(settings_.Text("data"), "/d");
  EXPECT_EQ(settings_.SourceOf("batch_size"), SettingSource::kFlag);
}

TEST_F(SettingsTest, FlagsAcceptDashesUnderscoresPrefixesAliasesAndLetters) {
  ASSERT_TRUE(Parse({"--learning-rate=0.5", "--batch", "3", "--dev", "cpu"}).ok());
  EXPECT_DOUBLE_EQ(settings_.Double("learning_rate"), 0.5);
  EXPECT_EQ(settings_.Int("batch_size"), 3);
  EXPECT_EQ(settings_.Text("device"), "cpu");
  ASSERT_TRUE(Parse({"-b", "5"}).ok());
  EXPECT_EQ(settings_.Int("batch_size"), 5);
  ASSERT_TRUE(Parse({"-b7"}).ok());
  EXPECT_EQ(settings_.Int("batch_size"), 7);
}

TEST_F(SettingsTest, BooleansAreAcceptedInEveryForm) {
  for (const char* off : {"--shuffle=false", "--shuffle=0", "--no_shuffle", "--no-shuffle"}) {
    Settings fresh("cnnA", Specs());
    ASSERT_TRUE(fresh.ParseFlags({off}, false).ok()) << off;
    EXPECT_FALSE(fresh.Bool("shuffle")) << off;
  }
  ASSERT_TRUE(Parse({"--shuffle", "rest"}).ok());
  EXPECT_TRUE(settings_.Bool("shuffle"));
}

TEST_F(SettingsTest, FlagWithChoicesCanBeFollowedByAValue) {
  std::vector<SettingSpec> specs = {{.name = "shuffle",
                                     .kind = SettingSpec::Kind::kBool,
                                     .default_text = "true",
                                     .help = "Order.",
                                     .choices = {"streams"}},
                                    {.name = "next", .help = "Text."}};
  const auto text = [&](std::vector<std::string> args) {
    Settings settings("cnnA", specs);
    const auto rest = settings.ParseFlags(args, /*positionals_allowed=*/true);
    EXPECT_TRUE(rest.ok()) << rest.status();
    return settings.Text("shuffle") + (rest->empty() ? "" : "," + rest->front());
  };
  EXPECT_EQ(text({"--shuffle", "streams"}), "streams");
  EXPECT_EQ(text({"--shuffle=streams"}), "streams");
  EXPECT_EQ(text({"--shuffle", "false"}), "false");
  EXPECT_EQ(text({"--shuffle", "0"}), "false");
  EXPECT_EQ(text({"--no_shuffle"}), "false");
  EXPECT_EQ(text({"--shuffle"}), "true");
  EXPECT_EQ(text({"--shuffle", "--next", "x"}), "true");
  EXPECT_EQ(text({"--shuffle", "train.py"}), "true,train.py");
  EXPECT_EQ(text({"--no_shuffle", "true"}), "false,true");
  Settings settings("cnnA", specs);
  EXPECT_THAT(std::string(settings.ParseFlags({"--shuffle=rivers"}, false).status().message()),
              HasSubstr("\"rivers\" is not allowed; it takes true, false or streams"));
  const auto complaint = [&](std::vector<std::string> args) {
    return std::string(settings.ParseFlags(args, false).status().message());
  };
  EXPECT_THAT(complaint({"--shuffle", "rivers"}),
              HasSubstr("--shuffle: \"rivers\" is not allowed; it takes true, false or streams"));
  EXPECT_THAT(complaint({"--shuffle", "--next", "x", "rivers"}), HasSubstr("\"rivers\" is not a flag"));
  EXPECT_THAT(complaint({"--shuffle", "streams", "rivers"}), HasSubstr("\"rivers\" is not a flag"));
  EXPECT_THAT(complaint({"--no_shuffle", "rivers"}), HasSubstr("\"rivers\" is not a flag"));
  EXPECT_THAT(complaint({"--shuffle", "--", "rivers"}), HasSubstr("\"rivers\" is not a flag"));
  EXPECT_THAT(settings.Help(), HasSubstr("--shuffle[=true|false|streams]"));
}

TEST_F(SettingsTest, ProgramAndItsArgumentsAreUnchanged) {
  EXPECT_THAT(*Parse({"--batch_size", "2", "train.py", "--batch_size", "9"}),
              ElementsAre("train.py", "--batch_size", "9"));
  EXPECT_EQ(settings_.Int("batch_size"), 2);
  EXPECT_THAT(*Parse({"--", "--odd"}), ElementsAre("--odd"));
}

TEST_F(SettingsTest, ErrorForAWrongFlagTellsWhatIsAllowed) {
  EXPECT_THAT(Complaint({"--bach_size", "3"}),
              HasSubstr("unknown flag --bach_size; did you mean --batch_size?"));
  EXPECT_THAT(Complaint({"--rdzv", "x"}), HasSubstr("ambiguous: --rdzv_id, --rdzv_endpoint"));
  EXPECT_THAT(Complaint({"--batch_size"}), HasSubstr("needs a value"));
  EXPECT_THAT(Complaint({"--data", "--shuffle"}), HasSubstr("--data needs a value"));
  EXPECT_THAT(Complaint({"--batch_size", "many"}),
              HasSubstr("\"many\" is not allowed; it takes a whole number, 1 or more"));
  EXPECT_THAT(Complaint({"--batch_size=0"}), HasSubstr("1 or more"));
  EXPECT_THAT(Complaint({"--learning_rate=nan"}), HasSubstr("a number"));
  EXPECT_THAT(Complaint({"--device=tpu"}), HasSubstr("one of auto, cpu, cuda"));
  EXPECT_THAT(Complaint({"-x"}), HasSubstr("unknown flag -x"));
  const auto positional = settings_.ParseFlags({"oops"}, false);
  EXPECT_THAT(std::string(positional.status().message()), HasSubstr("\"oops\" is not a flag"));
}

TEST_F(SettingsTest, UnknownFlagUnlikeAnyNameStillGetsAHint) {
  EXPECT_THAT(Complaint({"--coordinator", "x"}), HasSubstr("did you mean --rdzv_endpoint?"));
  EXPECT_THAT(Complaint({"--batches_in_a_step", "3"}), HasSubstr("did you mean --batch_size?"));
  EXPECT_THAT(Complaint({"--zzz"}), testing::EndsWith("unknown flag --zzz"));
}

TEST_F(SettingsTest, OnlyAFlagWithoutAHintIsStrange) {
  const auto is_strange = [this](const std::vector<std::string>& args) {
    return IsStrangeFlag(Annotate(settings_.ParseFlags(args, true).status(), "there"));
  };
  EXPECT_TRUE(is_strange({"--zzz"}));
  EXPECT_TRUE(is_strange({"-x"}));
  for (const char* flag : {"--bach_size", "--coordinator", "--rdzv", "--batch_size"})
    EXPECT_FALSE(is_strange({flag})) << flag;
  EXPECT_FALSE(IsStrangeFlag(absl::OkStatus()));
}

TEST_F(SettingsTest, AbbreviationNeverMeansAYieldingSetting) {
  ASSERT_TRUE(Parse({"--dat", "/here"}).ok());
  EXPECT_EQ(settings_.Text("data"), "/here");
  EXPECT_FALSE(settings_.IsSet("dataset"));
}

TEST_F(SettingsTest, FlagOverridesEnvironmentOverridesFileInAnyOrder) {
  const std::string path = File("cnnA:\n  batch_size: 1\n  learning_rate: 0.1\n  data: /file\n");
  const EnvironmentMap environment = {
      {"PET_BATCH_SIZE", "2"}, {"PET_LEARNING_RATE", "0.2"}, {"PET_SHUFFLE", ""}};
  ASSERT_TRUE(Parse({"--batch_size", "3"}).ok());
  ASSERT_TRUE(settings_.ApplyYaml(path, "cnnA").ok());
  ASSERT_TRUE(settings_.ApplyEnvironment(environment, "PET_").ok());
  ASSERT_TRUE(settings_.ApplyYaml(path, "cnnA").ok());
  EXPECT_EQ(settings_.Int("batch_size"), 3);
  EXPECT_DOUBLE_EQ(settings_.Double("learning_rate"), 0.2);
  EXPECT_EQ(settings_.Text("data"), "/file");
  EXPECT_THAT(settings_.Table(), HasSubstr("config.yaml:4"));
}

TEST_F(SettingsTest, TooDeeplyNestedFileIsAnErrorWithoutACrash) {
  for (const std::string& text :
       {std::string(3'000'000, '['), "cnnA:\n  data: " + std::string(3'000'000, '{')}) {
    EXPECT_THAT(std::string(settings_.ApplyYaml(File(text), "cnnA").message()), HasSubstr("config.yaml:"));
  }
}

TEST_F(SettingsTest, UnknownYamlKeyIsReportedWithLineAndNearestName) {
  const absl::Status key = settings_.ApplyYaml(File("cnnA:\n  batch_size: 1\n  lerning_rate: 2\n"), "cnnA");
  EXPECT_THAT(std::string(key.message()),
              HasSubstr("config.yaml:3: unknown key \"lerning_rate\"; did you mean learning_rate?"));
}

TEST_F(SettingsTest, SectionsOfOtherProgramsAreIgnored) {
  const std::string path =
      File("my_trainer:\n  anything: {a: 1}\nempty:\ncnnA:\n  batch_size: 9\ncnnB:\n  x: 1\n");
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(settings_.ApplyYaml(path, "cnnA").ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(settings_.Int("batch_size"), 9);
}

TEST_F(SettingsTest, SectionWithASimilarNameIsAWarning) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(settings_.ApplyYaml(File("mtrun:\n  nnodes: 2\ncnn_A:\n  batch_size: 9\n"), "cnnA").ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("config.yaml:3: section \"cnn_A\" is not read; did you mean \"cnnA\"?"));
  EXPECT_NE(settings_.Int("batch_size"), 9);
}

TEST_F(SettingsTest, ValueOutsideAnySectionIsAnError) {
  EXPECT_THAT(std::string(settings_.ApplyYaml(File("cnnA:\n  data: x\nbatch_size: 9\n"), "cnnA").message()),
              HasSubstr("config.yaml:3: \"batch_size\" is outside any section"));
}

TEST_F(SettingsTest, AliasIsAcceptedInFilesAndEnvironment) {
  Settings settings("cnnA", {{.name = "groups", .aliases = {"old_groups"}}});
  ASSERT_TRUE(settings.ApplyYaml(File("cnnA:\n  old_groups: a\n"), "cnnA").ok());
  EXPECT_EQ(settings.Text("groups"), "a");
  ASSERT_TRUE(settings.ApplyEnvironment({{"MT_OLD_GROUPS", "b"}}, "MT_").ok());
  EXPECT_EQ(settings.Text("groups"), "b");
}

/// yaml-cpp would take zero bytes for UTF-16, and does not end for all such files.
TEST_F(SettingsTest, YamlIsTextInUtf8) {
  for (const std::string& text :
       {std::string("c\0n\0n\0A\0:\0\n\0", 12), std::string("cnnA:\n  lr: 1\0\n", 16),
        std::string("cnnA:\n  data: caf\xE9\n")})
    EXPECT_THAT(std::string(settings_.ApplyYaml(File(text), "cnnA").message()),
                HasSubstr("not a text in UTF-8"));
  EXPECT_TRUE(settings_
                  .ApplyYaml(File("\xEF\xBB\xBF"
                                  "cnnA:\n  batch_size: 2\n"),
                             "cnnA")
                  .ok())
      << "with its mark";
}

/// yaml-cpp 0.7 finds documents without end in some damaged files, so that nothing behind the second is read.
TEST_F(SettingsTest, NothingBehindTheSecondYamlDocumentIsRead) {
  EXPECT_THAT(
      std::string(
          settings_.ApplyYaml(File("cnnA:\n  lr: 1\n---\nvit:\n  lr: 2\n---\n]\n"), "cnnA").message()),
      AllOf(HasSubstr("config.yaml:4: "), HasSubstr("second YAML document")));
}

TEST_F(SettingsTest, YamlOfEveryShapeIsRead) {
  EXPECT_TRUE(
      settings_.ApplyYaml(File("mtrun:\n  nnodes: 2\ncnnA:\n  data: [a, b]\n  batch-size: 9\n"), "cnnA")
          .ok());
  EXPECT_EQ(settings_.Text("data"), "a,b");
  EXPECT_EQ(settings_.Int("batch_size"), 9);
  EXPECT_TRUE(settings_.ApplyYaml(File(""), "cnnA").ok());
  EXPECT_TRUE(settings_.ApplyYaml(File("cnnA:\n"), "cnnA").ok());
  EXPECT_THAT(std::string(settings_.ApplyYaml(File("cnnA: [1\n"), "cnnA").message()),
              HasSubstr("config.yaml:"));
  EXPECT_THAT(std::string(settings_.ApplyYaml(File("- 1\n"), "cnnA").message()),
              HasSubstr("must contain sections"));
  EXPECT_THAT(std::string(settings_.ApplyYaml(File("cnnA:\n  data: {a: 1}\n"), "cnnA").message()),
              HasSubstr("config.yaml:2"));
  EXPECT_THAT(std::string(settings_.ApplyYaml(File("cnnA: 3\n"), "cnnA").message()),
              HasSubstr("has no keys"));
  EXPECT_EQ(settings_.ApplyYaml(folder_ + "/none.yaml", "cnnA").code(), absl::StatusCode::kNotFound);
}

TEST_F(SettingsTest, FileWithSeveralDocumentsIsRefused) {
  EXPECT_THAT(Refusal("cnnA:\n  batch_size: 1\n---\ncnnA:\n  batch_size: 2\n"),
              AllOf(HasSubstr("config.yaml:4: "), HasSubstr("second YAML document")));
  EXPECT_THAT(Refusal("vit:\n  a: 1\n---\n- 1\n"), HasSubstr("config.yaml:4: "));
  ASSERT_TRUE(settings_.ApplyYaml(File("%YAML 1.2\n---\ncnnA:\n  batch_size: 3\n...\n"), "cnnA").ok());
  EXPECT_EQ(settings_.Int("batch_size"), 3);
}

TEST_F(SettingsTest, DuplicateKeyIsAnErrorWithBothLines) {
  EXPECT_THAT(Refusal("cnnA:\n  batch_size: 1\nvit:\ncnnA:\n  batch_size: 2\n"),
              HasSubstr("config.yaml:4: section \"cnnA\" is already on line 1"));
  EXPECT_THAT(Refusal("vit:\ncnnA:\nvit:\n"),
              HasSubstr("config.yaml:3: section \"vit\" is already on line 1"));
  EXPECT_THAT(Refusal("cnnA:\n  batch_size: 1\n  data: x\n  batch_size: 1\n"),
              HasSubstr("config.yaml:4: \"batch_size\" is set on line 2 too"));
  EXPECT_THAT(Refusal("cnnA:\n  batch_size: 1\n  batch-size:\n"),
              HasSubstr("config.yaml:3: \"batch-size\" is set on line 2 too"));
  Settings settings("cnnA", {{.name = "groups", .aliases = {"old_groups"}}});
  EXPECT_THAT(
      std::string(settings.ApplyYaml(File("cnnA:\n  old_groups: a\n  groups: b\n"), "cnnA").message()),
      HasSubstr("config.yaml:3: \"groups\" is set on line 2 too, as \"old_groups\""));
}

TEST_F(SettingsTest, ResolvedYamlRoundTrips) {
  ASSERT_TRUE(Parse({"--data", "a: #b \"c\"", "--learning_rate", "1e-3", "--no_shuffle"}).ok());
  Settings again("cnnA", Specs());
  ASSERT_TRUE(again.ApplyYaml(File(settings_.Yaml("cnnA")), "cnnA").ok());
  for (const SettingSpec& spec : Specs()) EXPECT_EQ(again.Text(spec.name), settings_.Text(spec.name));
}

TEST_F(SettingsTest, DerivedValuesShowTheirReason) {
  settings_.Derive("batch_size", "64", "2 workers x 32");
  EXPECT_EQ(settings_.Int("batch_size"), 64);
  EXPECT_THAT(settings_.Table(), HasSubstr("2 workers x 32"));
}

TEST_F(SettingsTest, TableCanShowOnlyDifferencesFromDefaults) {
  const std::string none = settings_.Table(/*all=*/false);
  EXPECT_EQ(none, "");
  ASSERT_TRUE(
      settings_.ParseFlags({"--batch_size", "8", "--data", std::string(100, 'd') + "/end"}, false).ok());
  const std::string table = settings_.Table(false);
  EXPECT_THAT(table, HasSubstr("batch_size  8 "));
  EXPECT_THAT(table, Not(HasSubstr("learning_rate")));
  EXPECT_THAT(settings_.Table(true), HasSubstr("learning_rate"));
  for (const absl::string_view line : absl::StrSplit(settings_.Table(true, 60), '\n'))
    EXPECT_LE(line.size(), 60);
  EXPECT_THAT(settings_.Table(false, 60), HasSubstr("dddddddd...ddd"));
  EXPECT_THAT(settings_.Table(false, 60), HasSubstr("/end"));
}

TEST_F(SettingsTest, FileWithoutTheSectionIsAWarning) {
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(settings_.ApplyYaml(File("vit:\n  a: 1\ndiffusion:\n  b: 2\n"), "cnnA").ok());
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("config.yaml: section \"cnnA\" is missing, and the others are not read: vit, diffusion"));
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(settings_.ApplyYaml(File("cnnB:\n  a: 1\n"), "cnnA", MissingSection::kFine).ok());
  const auto unless_misspelt = MissingSection::kFineUnlessMisspelt;
  EXPECT_TRUE(settings_.ApplyYaml(File("vit:\n  a: 1\n"), "mtrun", unless_misspelt).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  const std::string misspelt = File("mtrum:\n  a: 1\nvit:\n  a: 1\n");
  EXPECT_TRUE(settings_.ApplyYaml(misspelt, "mtrun", unless_misspelt).ok());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("did you mean \"mtrun\"?"));
}

TEST_F(SettingsTest, HelpFitsEightyColumns) {
  for (const absl::string_view line : absl::StrSplit(settings_.Help(), '\n'))
    EXPECT_LE(line.size(), 80) << line;
}

TEST_F(SettingsTest, HelpNamesEverySetting) {
  const std::string help = settings_.Help();
  for (const SettingSpec& spec : Specs()) EXPECT_THAT(help, HasSubstr("--" + spec.name));
  EXPECT_THAT(help, HasSubstr("[0.001]"));
}

TEST_F(SettingsTest, HelpShowsCommonSettingsFirstAndEachGroupOnce) {
  const Settings settings("test",
                          {{.name = "host", .help = "Address.", .group = "Service", .value = "ADDRESS"},
                           {.name = "key", .help = "Key.", .group = "Security", .letter = 'k'},
                           {.name = "wait",
                            .kind = Kind::kDouble,
                            .default_text = "3",
                            .help = "Time to wait.",
                            .group = "Service",
                            .value = "SECONDS",
                            .otherwise = "3; alone 0"},
                           {.name = "port",
                            .kind = Kind::kInt,
                            .default_text = "80",
                            .help = "Port.",
                            .group = "Service",
                            .common = true}});
  EXPECT_EQ(settings.Help(),
            "\nMost used:\n"
            "  --port N                    Port. [80]\n"
            "\nService:\n"
            "  --host ADDRESS              Address.\n"
            "  --wait SECONDS              Time to wait. [3; alone 0]\n"
            "\nSecurity:\n"
            "  -k, --key TEXT              Key.\n");
}

}  // namespace
}  // namespace mtrun

#include "launcher/cli/completion.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/cli/option_table.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns bash's completions of the last of `words`.
std::vector<std::string> Offers(const std::vector<std::string>& words) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("mtrun"), CompletionScript("bash"));
  std::string array;
  for (const std::string& word : words) absl::StrAppend(&array, " '", word, "'");
  support::Program bash(
      {"bash", "-c",
       absl::StrCat("compopt() { :; }; source ", folder.File("mtrun"), "; COMP_WORDS=(mtrun", array,
                    "); COMP_CWORD=", words.size(),
                    "; _mtrun; ((${#COMPREPLY[@]})) && printf '%s\\n' \"${COMPREPLY[@]}\" || true")});
  EXPECT_EQ(bash.Wait(), 0) << bash.Text();
  EXPECT_THAT(bash.ErrLines(), testing::IsEmpty());
  return bash.OutLines();
}

TEST(CompletionTest, NamesEveryFlag) {
  for (const SettingSpec& spec : OptionTable()) {
    EXPECT_THAT(CompletionScript("bash"), HasSubstr("--" + spec.name));
    EXPECT_THAT(CompletionScript("zsh"), HasSubstr("'--" + spec.name));
    EXPECT_THAT(CompletionScript("fish"), HasSubstr(" -l " + spec.name + " "));
    EXPECT_THAT(CompletionScript("tcsh"), testing::ContainsRegex("[( ]" + spec.name + "[) ]"));
  }
}

TEST(CompletionTest, FishAndTcshCompleteValues) {
  EXPECT_THAT(CompletionScript("fish"),
              HasSubstr("-l numa_binding -x -a 'node socket exclusive core-complex' -d '"));
  EXPECT_THAT(CompletionScript("fish"), HasSubstr("-l module -s m -f -d '"));
  EXPECT_THAT(CompletionScript("fish"), HasSubstr("-l preempt_file -r -F -d '"));
  EXPECT_THAT(CompletionScript("tcsh"),
              HasSubstr("'n/--numa_binding/(node socket exclusive core-complex)/'"));
  EXPECT_THAT(CompletionScript("tcsh"), HasSubstr("'n/--preempt_file/f/'"));
}

TEST(CompletionTest, BashCompletesFlagsInBothSpellings) {
  EXPECT_THAT(Offers({"--nproc"}), ElementsAre("--nproc_per_node"));
  EXPECT_THAT(Offers({"--nproc-per"}), ElementsAre("--nproc-per-node"));
  EXPECT_THAT(Offers({"--standalone", "--max_r"}), ElementsAre("--max_restarts"));
}

TEST(CompletionTest, BashCompletesValues) {
  EXPECT_THAT(Offers({"--numa-binding", "s"}), ElementsAre("socket"));
  EXPECT_THAT(Offers({"--nproc_per_node", "="}), ElementsAre("auto", "cpu", "gpu"));
  EXPECT_THAT(Offers({"--nproc_per_node", "=", "g"}), ElementsAre("gpu"));
  EXPECT_THAT(Offers({"-t", ""}), ElementsAre("0", "1", "2", "3"));
}

TEST(CompletionTest, ZshCompletesFileNamesForPaths) {
  EXPECT_THAT(CompletionScript("zsh"), HasSubstr(":preempt_file:_files'"));
  EXPECT_THAT(CompletionScript("zsh"), HasSubstr(":redirects:(0 1 2 3)'"));
}

TEST(CompletionTest, NothingIsOfferedAfterTheProgram) {
  EXPECT_THAT(Offers({"--nnodes", "2", "train.py", "--n"}), testing::IsEmpty());
  EXPECT_THAT(Offers({"-m", "package.train", "--n"}), testing::IsEmpty());
}

}  // namespace
}  // namespace mtrun::launcher

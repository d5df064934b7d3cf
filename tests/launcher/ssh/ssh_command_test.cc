#include "launcher/ssh/ssh_command.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/program.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SshCommandTest, WordsAreSplitAtUnquotedBlanks) {
  EXPECT_THAT(*SplitWords("ssh"), ElementsAre("ssh"));
  EXPECT_THAT(*SplitWords("  ssh -F  'my file' -o \"A=b c\"x '' "),
              ElementsAre("ssh", "-F", "my file", "-o", "A=b cx", ""));
  for (const char* bad : {"", "  ", "ssh 'x", "ssh \"", "''"}) EXPECT_FALSE(SplitWords(bad).ok()) << bad;
}

/// Returns the words that a shell reads from `text`.
std::vector<std::string> Unquoted(const std::string& shell, const std::string& text) {
  support::Program program({shell, "-c", "printf '%s\\n' " + text});
  EXPECT_EQ(program.Wait(), 0) << program.Text();
  return program.OutLines();
}

TEST(SshCommandTest, QuotedWordSurvivesTheShell) {
  for (const char* word : {"/home/me/bin/mtrun", "", "a b", "a'b", "''", "$HOME", "`id`", "a\"b", "a;b&c|d>e",
                           "a!b", "a\\b", "\\", "*", "~", "-n", "#x", "a\\'b"}) {
    EXPECT_THAT(Unquoted("sh", ShellQuoted(word)), ElementsAre(word));
    EXPECT_THAT(Unquoted("bash", ShellQuoted(word)), ElementsAre(word));
  }
}

TEST(SshCommandTest, UserOptionsPrecedeOurs) {
  EXPECT_THAT(SshCommand({"ssh", "-F", "file"}, {"me", "node1", 8}, {"/opt/mtrun", true}),
              ElementsAre("ssh", "-F", "file", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                          "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "RequestTTY=no", "--",
                          "me@node1", "exec '/opt/mtrun' --ssh_host"));
}

TEST(SshCommandTest, RemoteShellFallsBackToMtrunOnPath) {
  support::TemporaryFolder folder;
  const std::string here = folder.File("it's mine"), bin = folder.File("mtrun");
  support::WriteText(here, "#!/bin/sh\necho here \"$@\"\n", true);
  support::WriteText(bin, "#!/bin/sh\necho path \"$@\"\n", true);
  const auto run = [&](const RemoteMtrun& mtrun) {
    support::Program program({"sh", "-c", RemoteCommand(mtrun)},
                             {{"PATH", folder.path() + ":/usr/bin:/bin"}});
    program.Wait();
    return program.Text();
  };
  EXPECT_THAT(run({here, false}), HasSubstr("here --ssh_host"));
  EXPECT_THAT(run({here + "x", false}), HasSubstr("path --ssh_host"));
  EXPECT_THAT(run({here, true}), HasSubstr("here --ssh_host"));
  EXPECT_THAT(run({here + "x", true}), HasSubstr("not found"));
}

TEST(SshCommandTest, SshErrorBecomesOneSentence) {
  const Host host = {"me", "b", 0};
  const RemoteMtrun mtrun = {"/opt/mtrun", false};
  const auto why = [&](const char* said, int status) { return WhyUnreachable(host, mtrun, said, status); };
  EXPECT_EQ(why("ssh: connect to host b port 22: Connection refused\r\n", 255),
            "connect to host b port 22: Connection refused");
  EXPECT_EQ(why("debug1: x\nssh: Could not resolve hostname b: Name or service not known\n\n", 255),
            "Could not resolve hostname b: Name or service not known");
  EXPECT_EQ(
      why("me@b: Permission denied (publickey,password).\n", 255),
      "it asks for a password, which mtrun cannot give: set up a key (ssh-copy-id me@b), so that `ssh me@b` "
      "asks nothing");
  EXPECT_EQ(why("me@b: Permission denied (publickey).\n", 255),
            "it accepts none of your keys: me@b: Permission denied (publickey).");
  EXPECT_THAT(why("No ED25519 host key is known for b.\nHost key verification failed.\n", 255),
              AllOf(HasSubstr("host key"), HasSubstr("ssh me@b")));
  EXPECT_EQ(why("sh: 1: exec: mtrun: not found\n", 127),
            "there is no mtrun at /opt/mtrun, nor on its PATH (set its path with --ssh_mtrun): sh: 1: "
            "exec: mtrun: "
            "not found");
  EXPECT_THAT(why("mtrun: unknown flag --ssh_host (see --help)\n", 2), HasSubstr("older"));
  EXPECT_EQ(why("", 255), "ssh ended with status 255");
  EXPECT_EQ(why(std::string(5000, 'x').c_str(), 255).size(), 300u);
}

}  // namespace
}  // namespace mtrun::launcher

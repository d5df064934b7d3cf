#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(OptionsSshTest, HostsSelectTheSshAct) {
  EXPECT_EQ(Parse("x")->act, Options::Act::kRun);
  const auto options = Parse(
      "--hosts a,b:8 --nnodes 1:2 --export A,B=c,,d --ssh_folder /w --ssh_mtrun /m --insecure --master_port "
      "77 "
      "--signals_to_forward USR2 x y");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->act, Options::Act::kSsh);
  EXPECT_EQ(options->ssh.hosts, "a,b:8");
  EXPECT_EQ(options->ssh.program, "ssh");
  EXPECT_THAT(options->ssh.exported, ElementsAre("A", "B=c,d"));
  EXPECT_EQ(options->ssh.folder, "/w");
  EXPECT_EQ(options->ssh.mtrun, "/m");
  EXPECT_EQ(options->ssh.port, 77);
  EXPECT_TRUE(options->ssh.nodes_given);
  EXPECT_FALSE(options->ssh.endpoint_given || options->ssh.id_given);
  EXPECT_TRUE(options->insecure);
  EXPECT_THAT(options->signals.forward, ElementsAre(SIGUSR2));
  EXPECT_TRUE(Parse("--hostfile f --rdzv_id i --rdzv_endpoint a x")->ssh.endpoint_given);
  EXPECT_EQ(Parse("x", {{"PET_HOSTS", "a"}, {"PET_SSH", "ssh -v"}})->ssh.program, "ssh -v");
}

/// Only the hosts can evaluate these.
TEST(OptionsSshTest, OtherOptionsAreLeftToTheHosts) {
  EXPECT_EQ(Parse("--hosts a --nproc_per_node gpu x")->act, Options::Act::kSsh);
  EXPECT_EQ(Parse("--hosts a --trainer cnnA --data d")->act, Options::Act::kSsh);
  EXPECT_EQ(
      Parse("--hosts a x", {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NODELIST", "n["}})
          ->act,
      Options::Act::kSsh);
}

TEST(OptionsSshTest, ConflictingOptionsAreRefused) {
  EXPECT_THAT(ErrorOf("--hosts a --hostfile f x"), AllOf(HasSubstr("--hosts"), HasSubstr("--hostfile")));
  EXPECT_THAT(ErrorOf("--hosts a --standalone x"), HasSubstr("--standalone"));
  EXPECT_THAT(ErrorOf("--hosts a"), HasSubstr("nothing to run"));
  EXPECT_THAT(ErrorOf("--hosts a --nnodes 3:1 x"), HasSubstr("--nnodes"));
  EXPECT_THAT(ErrorOf("--machinefile f x"), HasSubstr("--hostfile"));
}

}  // namespace
}  // namespace mtrun::launcher

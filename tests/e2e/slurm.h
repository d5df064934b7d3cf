// Shared by the end-to-end tests with Slurm: a separate cluster of Debian's slurmctld, slurmd and munged,
// each node in a network namespace, with key, configuration and state in the test's folder.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "tests/e2e/launcher.h"
#include "tests/support/network.h"

namespace mtrun::e2e {

/// Node 0 runs the controller and submits jobs; nodes 1 and 2 compute. All share a file system.
class SlurmTest : public LauncherTest {
 protected:
  static constexpr int kNodes = 3;
  // Slurm's actions within a minute can come "up to 30 s later".
  static constexpr Seconds kMinutes{150};

  void SetUp() override {
    for (const char* program : {"munged", "slurmctld", "slurmd"})
      if (access(absl::StrCat("/usr/sbin/", program).c_str(), X_OK) != 0) GTEST_SKIP() << "no Slurm here";
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    auto network = support::Network::Make(kNodes);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
    WriteConfiguration();
    munged_ = Daemon({"/usr/sbin/munged", "--foreground", "--force", "--key-file", folder_.File("munge.key"),
                      "--socket", folder_.File("munge"), "--pid-file", folder_.File("munge.pid"),
                      "--log-file", folder_.File("munge.log"), "--seed-file", folder_.File("munge.seed")});
    ASSERT_TRUE(munged_->WaitForLine("work threads")) << munged_->Text();
    controller_ = Daemon(On(0, {"/usr/sbin/slurmctld", "-D"}));
    ASSERT_TRUE(controller_->WaitForLine("Running as primary controller")) << controller_->Text();
    for (int node = 1; node < kNodes; ++node)
      slurmds_.push_back(Daemon(On(node, {"/usr/sbin/slurmd", "-D"})));
    for (const auto& slurmd : slurmds_) ASSERT_TRUE(slurmd->WaitForLine("slurmd started")) << slurmd->Text();
  }

  void TearDown() override {
    LauncherTest::TearDown();
    slurmds_.clear();
    controller_.reset();
    munged_.reset();
  }

  void WriteConfiguration() const {
    std::string key, hosts = "127.0.0.1 localhost\n";
    for (int i = 0; i < 8; ++i) absl::StrAppend(&key, absl::Hex(RandomBits(), absl::kZeroPad16));
    for (int node = 0; node < kNodes; ++node)
      absl::StrAppend(&hosts, network_->Address(node), " node", node, "\n");
    support::WriteText(folder_.File("munge.key"), key);
    std::filesystem::permissions(folder_.File("munge.key"), std::filesystem::perms::owner_read);
    support::WriteText(folder_.File("hosts"), hosts);
    std::filesystem::create_directory(folder_.File("state"));
    support::WriteText(
        folder_.File("slurm.conf"),
        absl::StrCat(
            "ClusterName=test\nSlurmctldHost=node0(", network_->Address(0),
            ")\nSlurmUser=root\nSlurmdUser=root\n",
            // A requeued job waits until the credentials of its last run have expired.
            "AuthInfo=socket=", folder_.File("munge"), ",cred_expire=5\nStateSaveLocation=",
            folder_.File("state"), "\nSlurmdSpoolDir=", folder_.File("spool-%n"), "\nSlurmctldPidFile=",
            folder_.File("controller.pid"), "\nSlurmdPidFile=", folder_.File("slurmd-%n.pid"),
            "\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/linear\n"
            "JobAcctGatherType=jobacct_gather/none\nKillWait=10\nReturnToService=2\nMailProg=/bin/true\n"
            "SchedulerType=sched/"
            "builtin\nSchedulerParameters=sched_interval=2\nPropagateResourceLimits=NONE\nNodeName=node[1-",
            kNodes - 1,
            "] CPUs=2 State=UNKNOWN\nPartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE\n"));
  }

  /// Returns `argv` as a command on that node, which resolves the others' names.
  std::vector<std::string> On(int node, const std::vector<std::string>& argv) const {
    return network_->On(
        node,
        Words({"unshare", "--mount", "sh", "-c",
               absl::StrCat("mount --bind ", folder_.File("hosts"), " /etc/hosts && exec \"$@\""), "sh"},
              argv));
  }

  /// Starts a daemon. Its children carry the daemons' mark: Slurm's own processes end with the daemons, and
  /// also with the test, however it ends.
  std::unique_ptr<Program> Daemon(const std::vector<std::string>& argv) const {
    support::Overlay overlay = daemons_.overlay();
    overlay["SLURM_CONF"] = folder_.File("slurm.conf");
    return std::make_unique<Program>(Words({"setpriv", "--pdeathsig", "KILL"}, argv), overlay);
  }

  /// Returns the submitter's environment, which Slurm gives to tasks: a shared home, and mtrun in the PATH.
  support::Overlay Submitter() const {
    support::Overlay overlay = Environment();
    overlay["SLURM_CONF"] = folder_.File("slurm.conf");
    overlay["HOME"] = folder_.path();
    overlay["PATH"] = absl::StrCat(support::BinaryFolder(), ":", std::getenv("PATH"));
    return overlay;
  }
  support::Overlay WithoutToken() const {
    support::Overlay overlay = Submitter();
    overlay[kTokenVariable] = std::nullopt;
    return overlay;
  }

  std::unique_ptr<Program> Start(const std::vector<std::string>& command,
                                 const support::Overlay& overlay) const {
    return std::make_unique<Program>(On(0, command), overlay, folder_.path());
  }
  std::unique_ptr<Program> Start(const std::vector<std::string>& command) const {
    return Start(command, Submitter());
  }
  /// Returns the output of a Slurm command.
  std::string Ask(const std::vector<std::string>& command) const {
    const auto program = Start(command);
    EXPECT_EQ(program->Wait(), 0) << program->Text();
    return program->Text();
  }

  /// Submits a script of the test's folder with output in "job.out"; returns the job's number.
  std::string Submit(const std::vector<std::string>& options, const std::string& script) const {
    const std::string id = Ask(Words(
        Words({"sbatch", "--parsable", "--output", folder_.File("job.out"), "--open-mode=append"}, options),
        {script}));
    return std::string(absl::StripAsciiWhitespace(id));
  }
  std::string Output() const { return support::ReadText(folder_.File("job.out")); }
  /// Waits until the job's output contains the text.
  bool WaitForOutput(const std::string& text, Seconds patience = support::kPatience) const {
    Program tail({"tail", "-F", "-n", "+1", folder_.File("job.out")});
    return tail.WaitForLine(text, patience).has_value();
  }

  std::unique_ptr<support::Network> network_;
  const support::Mark daemons_;
  std::unique_ptr<Program> munged_, controller_;
  std::vector<std::unique_ptr<Program>> slurmds_;
};

}  // namespace mtrun::e2e

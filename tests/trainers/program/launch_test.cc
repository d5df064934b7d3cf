// Runs programs without mtrun: under torchrun, and with Slurm's or the user's variables.
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/peers_python.h"
#include "tests/support/port.h"
#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

using testing::LearnablePixel;
using testing::Report;
using testing::WritePackedSet;

class LaunchTest : public ::testing::Test {
 protected:
  testing::Args Training(const std::string& run) {
    if (data_.empty()) {
      data_ = WritePackedSet(folder_.path(), "data", {.train = 40, .test = 10}, LearnablePixel);
    }
    return {"--data", data_, "--model_folder", folder_.File(run), "--epochs", "1", "--batch_size", "4"};
  }
  support::TemporaryFolder folder_;
  std::string data_;
};

/// torchrun's agent serves the store that our workers use.
TEST_F(LaunchTest, RunsUnderTorchrun) {
  const std::string python = support::PeersPython();
  if (python.empty()) GTEST_SKIP() << "no torchrun (tools/setup --peers)";
  testing::Args args = {
      python, "-m",          "torch.distributed.run",          "--standalone", "--nproc_per_node",
      "2",    "--no-python", support::BinaryFolder() + "/cnnA"};
  const testing::Args training = Training("run");
  args.insert(args.end(), training.begin(), training.end());
  support::Program program(args, testing::NoLauncher());
  ASSERT_EQ(program.Wait(), 0) << program.Text();
  EXPECT_EQ(Report(folder_.File("run"))["world_size"], 2);
}

/// The user named every address that the run's processes connect to.
TEST_F(LaunchTest, ConnectsOnlyToNamedAddresses) {
  if (access("/usr/bin/strace", X_OK) != 0) GTEST_SKIP() << "strace is not installed";
  const std::string port = absl::StrCat(support::FreePort());
  std::vector<std::unique_ptr<support::Program>> workers;
  for (const char* rank : {"0", "1"}) {
    testing::Args args = {"/usr/bin/strace",
                          "-f",
                          "-qq",
                          "-e",
                          "trace=connect,sendto",
                          "-o",
                          folder_.File(absl::StrCat("trace", rank)),
                          support::BinaryFolder() + "/cnnA"};
    const testing::Args training = Training("run");
    args.insert(args.end(), training.begin(), training.end());
    support::Overlay overlay = testing::NoLauncher();
    overlay["RANK"] = rank;
    overlay["WORLD_SIZE"] = "2";
    overlay["MASTER_ADDR"] = "127.0.0.1";
    overlay["MASTER_PORT"] = port;
    workers.push_back(std::make_unique<support::Program>(args, overlay));
  }
  for (const auto& worker : workers) {
    const auto status = worker->Wait();
    if (absl::StrContains(worker->Text(), "PTRACE")) GTEST_SKIP() << "tracing is not allowed here";
    ASSERT_EQ(status, 0) << worker->Text();
  }
  int seen = 0;
  for (const char* rank : {"0", "1"}) {
    const std::string trace = support::ReadText(folder_.File(absl::StrCat("trace", rank)));
    for (const absl::string_view line : absl::StrSplit(trace, '\n', absl::SkipEmpty())) {
      if (!absl::StrContains(line, "AF_INET")) continue;  // skip Unix sockets
      ++seen;
      EXPECT_TRUE(absl::StrContains(line, "127.0.0.1") || absl::StrContains(line, "::1"))
          << std::string(line);
    }
  }
  EXPECT_GT(seen, 0) << "the workers did meet somewhere";
}

}  // namespace
}  // namespace mtrun::trainers

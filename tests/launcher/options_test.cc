#include "launcher/options.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<Options> Parse(const std::string& line, const EnvironmentMap& environment = {},
                              MachineFacts machine = {6, 0}) {
  return ParseOptions(absl::StrSplit(line, ' ', absl::SkipEmpty()), environment, machine, {"cnnA", "vit"});
}

std::string ErrorOf(const std::string& line, const EnvironmentMap& environment = {}) {
  const auto options = Parse(line, environment);
  EXPECT_FALSE(options.ok()) << line;
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(options.status().message());
}

TEST(OptionsTest, DefaultsAreTorchruns) {
  const auto options = Parse("train.py --lr 0.1");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->workers, 1);
  EXPECT_EQ(options->job.min_nodes, 1);
  EXPECT_EQ(options->job.max_nodes, 1);
  EXPECT_EQ(options->job.max_restarts, 0);
  EXPECT_EQ(options->job.job_id, "none");
  EXPECT_EQ(options->role, "default");
  EXPECT_EQ(options->shutdown_timeout, std::chrono::seconds(30));
  EXPECT_TRUE(options->standalone);  // one node and no endpoint: nothing to meet
  EXPECT_THAT(options->entry.words, ElementsAre("train.py", "--lr", "0.1"));
}

TEST(OptionsTest, NodesAreANumberOrARange) {
  EXPECT_EQ(Parse("--nnodes 2:20 --rdzv_endpoint a x")->job.min_nodes, 2);
  EXPECT_EQ(Parse("--nnodes=2:20 --rdzv-endpoint=a x")->job.max_nodes, 20);
  EXPECT_EQ(Parse("--nnodes 3 --rdzv_endpoint a x")->job.min_nodes, 3);
  for (const char* bad : {"3:1", "0", "0:2", "1:2:3", "two", ":", "2:", "-1"}) {
    EXPECT_THAT(ErrorOf(std::string("--nnodes ") + bad + " x"),
                AllOf(HasSubstr("--nnodes"), HasSubstr(bad), HasSubstr("MIN:MAX")));
  }
}

TEST(OptionsTest, WorkersCanBeCounted) {
  EXPECT_EQ(Parse("--nproc-per-node 4 x")->workers, 4);
  EXPECT_EQ(Parse("--nproc_per_node=auto x")->workers, 6);
  EXPECT_EQ(Parse("--nproc_per_node=cpu x", {}, {6, 3})->workers, 6);
  EXPECT_EQ(Parse("--nproc_per_node=auto x", {}, {6, 3})->workers, 3);
  EXPECT_EQ(Parse("--nproc_per_node=gpu x", {}, {6, 3})->workers, 3);
  EXPECT_THAT(ErrorOf("--nproc_per_node gpu x"), HasSubstr("none is visible"));
  EXPECT_THAT(ErrorOf("--nproc_per_node unknown x"),
              AllOf(HasSubstr("\"unknown\""), HasSubstr("auto, cpu or gpu")));
  EXPECT_THAT(ErrorOf("--nproc_per_node 0 x"), HasSubstr("--nproc_per_node"));
}

TEST(OptionsTest, CudaVisibleDevicesNarrowsTheGpus) {
  EXPECT_EQ(VisibleGpus(4, {}), 4);
  EXPECT_EQ(VisibleGpus(4, {{"CUDA_VISIBLE_DEVICES", "0,2"}}), 2);
  EXPECT_EQ(VisibleGpus(4, {{"CUDA_VISIBLE_DEVICES", ""}}), 0);
  EXPECT_EQ(VisibleGpus(4, {{"CUDA_VISIBLE_DEVICES", "1,-1,2"}}), 1);
  EXPECT_EQ(VisibleGpus(4, {{"CUDA_VISIBLE_DEVICES", "1,9"}}), 1);
  EXPECT_EQ(VisibleGpus(4, {{"CUDA_VISIBLE_DEVICES", "GPU-aa,GPU-bb"}}), 2);
  EXPECT_EQ(VisibleGpus(0, {{"CUDA_VISIBLE_DEVICES", "GPU-aa"}}), 0);
}

TEST(OptionsTest, EndpointComesFromTheEndpointOrTheMaster) {
  EXPECT_EQ(Parse("--nnodes 2 --rdzv_endpoint node0 x")->endpoint, "node0:29400");
  EXPECT_EQ(Parse("--nnodes 2 --master_addr node0 --master_port 77 x")->endpoint, "node0:77");
  EXPECT_EQ(Parse("--nnodes 2 --master_addr node0 x")->endpoint, "node0:29500");
  EXPECT_EQ(Parse("--standalone --rdzv_endpoint node0:1 x")->endpoint, "127.0.0.1:0");
  EXPECT_THAT(ErrorOf("--nnodes 2 x"), AllOf(HasSubstr("--nnodes"), HasSubstr("--rdzv_endpoint")));
  EXPECT_THAT(ErrorOf("--nnodes 2 --rdzv_endpoint node0:x x"),
              AllOf(HasSubstr("--rdzv_endpoint"), HasSubstr("port")));
  EXPECT_THAT(ErrorOf("--nnodes 2 --rdzv_endpoint node0:0 x"), HasSubstr("1 to 65535"));
  EXPECT_THAT(ErrorOf("--standalone --nnodes 2 x"), HasSubstr("--standalone"));
}

TEST(OptionsTest, ConfReadsFractionsAndNamesTheBadKey) {
  const auto options = Parse(
      "--rdzv_conf "
      "join_timeout=0.5,last_call_timeout=0,keep_alive_interval=0.25,keep_alive_max_attempt=4,is_host=true,"
      "reconnect_timeout=7,timeout=900 x");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job.join_timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(options->job.last_call, Duration::zero());
  EXPECT_EQ(options->job.heartbeat_interval, std::chrono::milliseconds(250));
  EXPECT_EQ(options->job.heartbeats_missed, 4);
  EXPECT_EQ(options->is_host, true);
  EXPECT_EQ(options->reconnect_timeout, std::chrono::seconds(7));
  EXPECT_THAT(ErrorOf("--rdzv_conf join_timout=3 x"),
              AllOf(HasSubstr("--rdzv_conf"), HasSubstr("did you mean join_timeout?")));
  EXPECT_THAT(ErrorOf("--rdzv_conf join_timeout=soon x"),
              AllOf(HasSubstr("join_timeout"), HasSubstr("soon")));
  EXPECT_THAT(ErrorOf("--rdzv_conf join_timeout=0 x"), HasSubstr("more than 0"));
  EXPECT_THAT(ErrorOf("--rdzv_conf =3 x"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(ErrorOf("--rdzv_conf is_host=perhaps x"), HasSubstr("true or false"));
}

TEST(OptionsTest, FlagsBeatTheEnvironmentAndItBeatsTheFile) {
  const std::string folder = *MakeTemporaryFolder("options_test_");
  const std::string file = folder + "/run.yaml";
  std::ofstream(file)
      << "mtrun:\n  max_restarts: 1\n  nproc_per_node: 2\n  role: three\ncnnA:\n  epochs: 9\n";
  const EnvironmentMap environment = {
      {"PET_NPROC_PER_NODE", "3"}, {"PET_ROLE", "env"}, {"PET_STANDALONE", "1"}, {"PET_CONFIG", file}};
  const auto options = Parse("--role flag x", environment);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->job.max_restarts, 1);
  EXPECT_EQ(options->workers, 3);
  EXPECT_EQ(options->role, "flag");
  EXPECT_TRUE(options->standalone);

  std::ofstream(file) << "mtrun:\n  nodes: 1\n  max_restart: 1\n";
  EXPECT_THAT(ErrorOf("--config " + file + " x"), AllOf(HasSubstr("run.yaml:2"), HasSubstr("nodes")));
  std::remove(file.c_str());
  std::remove(folder.c_str());
}

TEST(OptionsTest, BadEnvironmentIsNamed) {
  EXPECT_THAT(ErrorOf("x", {{"PET_NNODES", "3:1"}}), AllOf(HasSubstr("PET_NNODES"), HasSubstr("3:1")));
  EXPECT_THAT(ErrorOf("x", {{"PET_MAX_RESTARTS", "many"}}), HasSubstr("PET_MAX_RESTARTS"));
}

TEST(OptionsTest, ShutdownTimeoutHasTorchrunsVariable) {
  const EnvironmentMap environment = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "5"}};
  EXPECT_EQ(Parse("x", environment)->shutdown_timeout, std::chrono::seconds(5));
  EXPECT_EQ(Parse("--shutdown_timeout 0.5 x", environment)->shutdown_timeout, std::chrono::milliseconds(500));
  EXPECT_THAT(ErrorOf("--shutdown_timeout -1 x"), HasSubstr("shutdown_timeout"));
}

TEST(OptionsTest, UnknownFlagsNameTheNearest) {
  EXPECT_EQ(Parse("--nproc 2 x")->workers, 2);  // an unambiguous prefix will do
  EXPECT_THAT(ErrorOf("--max_restart_s 2 x"), HasSubstr("--max_restarts"));
  EXPECT_THAT(ErrorOf("--node_rank"), HasSubstr("needs a value"));
}

TEST(OptionsTest, TheProgramsWordsStayAsTheyAre) {
  EXPECT_THAT(Parse("--standalone prog --nnodes 7 --trainer vit -- -m")->entry.words,
              ElementsAre("prog", "--nnodes", "7", "--trainer", "vit", "--", "-m"));
  EXPECT_EQ(Parse("--standalone prog --trainer vit")->entry.trainer, "");
  EXPECT_TRUE(Parse("-m pkg.mod --x")->entry.module);
  EXPECT_THAT(Parse("-m pkg.mod --x")->entry.words, ElementsAre("pkg.mod", "--x"));
  EXPECT_THAT(ErrorOf("--no_python -m mod"), HasSubstr("exclude"));
  EXPECT_THAT(ErrorOf("--standalone"), HasSubstr("nothing to run"));
}

TEST(OptionsTest, EverythingBehindTheTrainersNameIsTheTrainers) {
  const auto options = Parse("--standalone --nproc_per_node 2 --trainer cnnA --epochs 3 --help --nnodes 9");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->act, Options::Act::kRun);
  EXPECT_EQ(options->entry.trainer, "cnnA");
  EXPECT_EQ(options->role, "cnnA");
  EXPECT_THAT(options->entry.words, ElementsAre("--epochs", "3", "--help", "--nnodes", "9"));
  EXPECT_THAT(Parse("--role r --trainer=cnnA --epochs 3")->entry.words, ElementsAre("--epochs", "3"));
  EXPECT_EQ(Parse("--role r --trainer=cnnA --epochs 3")->role, "r");
  EXPECT_THAT(ErrorOf("-m --trainer cnnA"), HasSubstr("--trainer"));
}

TEST(OptionsTest, TheTrainerGetsTheSameConfigFile) {
  const std::string folder = *MakeTemporaryFolder("options_test_");
  const std::string file = folder + "/run.yaml";
  std::ofstream(file) << "mtrun:\n  standalone: true\n";
  const auto options = Parse("--config " + file + " --trainer cnnA --epochs 3");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->entry.words, ElementsAre("--config", file, "--epochs", "3"));
  std::remove(file.c_str());
  std::remove(folder.c_str());
}

TEST(OptionsTest, StreamsGoToFileAndConsoleUnlessRedirected) {
  const OutputPlan both;
  EXPECT_EQ(Parse("x")->OutputOf(0), both);
  EXPECT_EQ(Parse("-r 3 -t 3 x")->OutputOf(0), both);
  EXPECT_EQ(Parse("--redirects 1 x")->OutputOf(0), (OutputPlan{{true, false}, {true, true}}));
  const auto options = Parse("-r 0:3,11:2 --tee 11:2 x");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->OutputOf(0), (OutputPlan{{true, false}, {true, false}}));
  EXPECT_EQ(options->OutputOf(11), both);
  EXPECT_EQ(Parse("--log_dir /dev/null x")->OutputOf(0), (OutputPlan{{false, true}, {false, true}}));
  EXPECT_THAT(ErrorOf("--tee 4 x"), HasSubstr("--tee"));
}

TEST(OptionsTest, HelpNamesEveryFlagOfTheContract) {
  EXPECT_EQ(Parse("--help")->act, Options::Act::kHelp);
  EXPECT_EQ(Parse("--version x")->act, Options::Act::kVersion);
  for (const char* flag : {"--nnodes", "--nproc_per_node", "--node_rank", "--rdzv_endpoint", "--standalone",
                           "--max_restarts", "--log_dir", "--trainer", "--config"}) {
    EXPECT_THAT(HelpText(), HasSubstr(flag));
  }
}

}  // namespace
}  // namespace mtrun::launcher

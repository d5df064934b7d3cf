#include "launcher/cli/options.h"

#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <set>

#include "base/posix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "launcher/cli/option_table.h"
#include "tests/launcher/cli/parse_line.h"

namespace mtrun::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
  EXPECT_TRUE(options->standalone);  // one node and no endpoint: no other node will join
  EXPECT_THAT(options->entry.words, ElementsAre("train.py", "--lr", "0.1"));
}

TEST(OptionsTest, NnodesIsANumberOrARange) {
  EXPECT_EQ(Parse("--nnodes 2:20 --rdzv_endpoint a x")->job.min_nodes, 2);
  EXPECT_EQ(Parse("--nnodes=2:20 --rdzv-endpoint=a x")->job.max_nodes, 20);
  EXPECT_EQ(Parse("--nnodes 3 --rdzv_endpoint a x")->job.min_nodes, 3);
  for (const char* bad : {"3:1", "0", "0:2", "1:2:3", "two", ":", "2:", "-1"}) {
    EXPECT_THAT(ErrorOf(std::string("--nnodes ") + bad + " x"),
                AllOf(HasSubstr("--nnodes"), HasSubstr(bad), HasSubstr("MIN:MAX")));
  }
  EXPECT_EQ(Parse("--nnodes 1:10000 --rdzv_endpoint a x")->job.max_nodes, 10000);
  for (const char* many : {"1:10001", "10001", "1:100000", "2147483647", "1:4294967297"}) {
    EXPECT_THAT(ErrorOf(std::string("--nnodes ") + many + " --rdzv_endpoint a x"),
                AllOf(HasSubstr("--nnodes"), HasSubstr(many), HasSubstr("10000")));
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
  EXPECT_EQ(Parse("--nproc_per_node 4096 x")->workers, 4096);
  for (const char* many : {"4097", "2147483647", "4294967297"}) {
    EXPECT_THAT(ErrorOf(std::string("--nproc_per_node ") + many + " x"),
                AllOf(HasSubstr("--nproc_per_node"), HasSubstr(many), HasSubstr("1 to 4096")));
  }
  EXPECT_THAT(Parse("--nproc_per_node cpu x", {}, {5000, 0}).status().message(), HasSubstr("1 to 4096"));
  EXPECT_THAT(ErrorOf("--nproc_per_node xpu x"), HasSubstr("give their number"));
}

TEST(OptionsTest, OutOfRangeNumbersAreRefused) {
  EXPECT_EQ(Parse("--max_restarts 1000000000 x")->job.max_restarts, 1000000000);
  EXPECT_THAT(ErrorOf("--max_restarts 1000000001 x"),
              AllOf(HasSubstr("--max_restarts"), HasSubstr("from 0 to 1000000000")));
  EXPECT_THAT(ErrorOf("--max_restarts 4294967296 x"), HasSubstr("--max_restarts"));
  EXPECT_THAT(ErrorOf("--node_rank 4294967296 x"), HasSubstr("--node_rank"));
}

TEST(OptionsTest, FlagsOverrideTheEnvironmentWhichOverridesTheFile) {
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

TEST(OptionsTest, ErrorNamesABadVariable) {
  EXPECT_THAT(ErrorOf("x", {{"PET_NNODES", "3:1"}}), AllOf(HasSubstr("PET_NNODES"), HasSubstr("3:1")));
  EXPECT_THAT(ErrorOf("x", {{"PET_MAX_RESTARTS", "many"}}), HasSubstr("PET_MAX_RESTARTS"));
}

TEST(OptionsTest, OptionsWithoutEffectAreNotedOnce) {
  EXPECT_TRUE(Parse("x")->notes.empty());
  const auto options = Parse("--monitor-interval 5 --start_method=fork --event_log_handler null x",
                             {{"PET_EXIT_BARRIER_TIMEOUT", "10"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->notes,
              ElementsAre(AllOf(HasSubstr("--monitor_interval"), HasSubstr("--start_method"),
                                HasSubstr("PET_EXIT_BARRIER_TIMEOUT"), Not(HasSubstr("event_log")))));
  EXPECT_THAT(ErrorOf("--start_method thread x"), HasSubstr("spawn, fork, forkserver"));
  EXPECT_THAT(ErrorOf("--exit_barrier_timeout -1 x"), HasSubstr("exit_barrier_timeout"));
  EXPECT_THAT(ErrorOf("--logs_specs mine x"), HasSubstr("\"mine\""));
  EXPECT_TRUE(Parse("--logs_specs default x").ok());
}

TEST(OptionsTest, EveryTorchrunFlagIsAcceptedInEverySpelling) {
  const std::vector<std::pair<std::string, std::string>> flags = {{"nnodes", "1"},
                                                                  {"nproc-per-node", "2"},
                                                                  {"rdzv-backend", "c10d"},
                                                                  {"rdzv-endpoint", "localhost:0"},
                                                                  {"rdzv-id", "i"},
                                                                  {"rdzv-conf", "timeout=3"},
                                                                  {"max-restarts", "1"},
                                                                  {"monitor-interval", "1"},
                                                                  {"start-method", "spawn"},
                                                                  {"event-log-handler", "console"},
                                                                  {"role", "r"},
                                                                  {"log-dir", "/tmp"},
                                                                  {"redirects", "3"},
                                                                  {"tee", "0:1,11:2"},
                                                                  {"log-line-prefix-template", "x"},
                                                                  {"local-ranks-filter", "0"},
                                                                  {"duplicate-stdout-filters", "a"},
                                                                  {"duplicate-stderr-filters", "a"},
                                                                  {"node-rank", "0"},
                                                                  {"master-addr", "a"},
                                                                  {"master-port", "1"},
                                                                  {"local-addr", "a"},
                                                                  {"logs-specs", "default"},
                                                                  {"numa-binding", "core-complex"},
                                                                  {"signals-to-handle", "SIGTERM"},
                                                                  {"shutdown-timeout", "3"},
                                                                  {"exit-barrier-timeout", "3"}};
  for (const auto& [name, value] : flags) {
    std::string under = name;
    std::replace(under.begin(), under.end(), '-', '_');
    std::string variable = "PET_" + under;
    std::transform(variable.begin(), variable.end(), variable.begin(), ::toupper);
    for (const std::string& spelling : {name, under}) {
      EXPECT_TRUE(Parse("--" + spelling + "=" + value + " x").ok()) << spelling;
      EXPECT_TRUE(Parse("--" + spelling + " " + value + " x").ok()) << spelling;
    }
    EXPECT_TRUE(Parse("x", {{variable, value}}).ok()) << variable;
  }
  for (const char* name :
       {"standalone", "no-python", "run-path", "virtual-local-rank", "no_python", "module"})
    EXPECT_TRUE(Parse(std::string("--") + name + " x").ok()) << name;
  EXPECT_TRUE(Parse("-m x")->entry.module);
  EXPECT_FALSE(Parse("x", {{"PET_MODULE", "0"}})->entry.module);
  EXPECT_TRUE(Parse("x", {{"PET_MODULE", "1"}})->entry.module);
}

TEST(OptionsTest, AbbreviationsMeanTorchrunsFlags) {
  EXPECT_THAT(Parse("--signals SIGTERM x")->signals.stop, ElementsAre(SIGTERM));
  EXPECT_TRUE(Parse("--v x")->virtual_local_rank);
  EXPECT_FALSE(Parse("--redirect=3 x")->redirects.empty());
  EXPECT_FALSE(Parse("--t 3 x")->tee.empty());
  EXPECT_THAT(Parse("--event null x")->notes, testing::IsEmpty());
}

TEST(OptionsTest, EachVirtualLocalRankNeedsADevice) {
  EXPECT_TRUE(Parse("--virtual_local_rank --nproc_per_node 2 x", {{"CUDA_VISIBLE_DEVICES", "4,5"}}).ok());
  EXPECT_THAT(ErrorOf("--virtual_local_rank --nproc_per_node 3 x",
                      {{"CUDA_VISIBLE_DEVICES", "4,5,6"}, {"HIP_VISIBLE_DEVICES", "1"}}),
              HasSubstr("HIP_VISIBLE_DEVICES is \"1\""));
  EXPECT_THAT(ErrorOf("--virtual_local_rank --nproc_per_node 3 x", {{"CUDA_VISIBLE_DEVICES", "4,5"}}),
              AllOf(HasSubstr("CUDA_VISIBLE_DEVICES"), HasSubstr("4,5")));
}

TEST(OptionsTest, UnknownFlagSuggestsTheNearest) {
  EXPECT_EQ(Parse("--nproc 2 x")->workers, 2);  // an unambiguous prefix suffices
  EXPECT_THAT(ErrorOf("--max_restart_s 2 x"), HasSubstr("--max_restarts"));
  EXPECT_THAT(ErrorOf("--node_rank"), HasSubstr("needs a value"));
  EXPECT_THAT(ErrorOf("--nprocs 2 x"), HasSubstr("did you mean --nproc_per_node?"));
  EXPECT_THAT(ErrorOf("--num-processes 2 x"), HasSubstr("did you mean --nproc_per_node?"));
  EXPECT_THAT(ErrorOf("--port 2 x"), HasSubstr("did you mean --master_port?"));
  EXPECT_THAT(ErrorOf("--lr 0.1 train.py"), HasSubstr("after its name"));
}

TEST(OptionsTest, ProgramArgumentsAreUnchanged) {
  EXPECT_THAT(Parse("--standalone prog --nnodes 7 --trainer vit -- -m")->entry.words,
              ElementsAre("prog", "--nnodes", "7", "--trainer", "vit", "--", "-m"));
  EXPECT_EQ(Parse("--standalone prog --trainer vit")->entry.trainer, "");
  EXPECT_TRUE(Parse("-m pkg.mod --x")->entry.module);
  EXPECT_THAT(Parse("-m pkg.mod --x")->entry.words, ElementsAre("pkg.mod", "--x"));
  EXPECT_THAT(ErrorOf("--no_python -m mod"), HasSubstr("exclude"));
  EXPECT_THAT(ErrorOf("--standalone"), HasSubstr("nothing to run"));
}

TEST(OptionsTest, ArgumentsAfterTheTrainersNameAreTheTrainers) {
  const auto options = Parse("--standalone --nproc_per_node 2 --trainer cnnA --epochs 3 --help --nnodes 9");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->act, Options::Act::kRun);
  EXPECT_EQ(options->entry.trainer, "cnnA");
  EXPECT_EQ(options->job.max_restarts, 10);
  EXPECT_EQ(options->job.refund_steps, 100);
  EXPECT_EQ(Parse("--max_restarts 0 --trainer cnnA")->job.max_restarts, 0);
  EXPECT_EQ(Parse("--standalone prog")->job.refund_steps, 0);
  EXPECT_EQ(options->role, "cnnA");
  EXPECT_THAT(options->entry.words, ElementsAre("--epochs", "3", "--help", "--nnodes", "9"));
  EXPECT_THAT(Parse("--role r --trainer=cnnA --epochs 3")->entry.words, ElementsAre("--epochs", "3"));
  EXPECT_EQ(Parse("--role r --trainer=cnnA --epochs 3")->role, "r");
  EXPECT_THAT(ErrorOf("-m --trainer cnnA"), HasSubstr("--trainer"));
}

TEST(OptionsTest, TrainerGetsTheSameConfigFile) {
  const std::string folder = *MakeTemporaryFolder("options_test_");
  const std::string file = folder + "/run.yaml";
  std::ofstream(file) << "mtrun:\n  standalone: true\n";
  const auto options = Parse("--config " + file + " --trainer cnnA --epochs 3");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->entry.words, ElementsAre("--config", file, "--epochs", "3"));
  std::remove(file.c_str());
  std::remove(folder.c_str());
}

TEST(OptionsTest, PortRangeExcludesTheEndpointsPorts) {
  const std::string job = "--nnodes 2 --rdzv_endpoint 127.0.0.1:29400,node2:29401 ";
  EXPECT_EQ(Parse(job + "x")->port_range, PortRange{});
  EXPECT_EQ(Parse(job + "--port_range 29402-29500 x")->port_range, (PortRange{29402, 29500}));
  EXPECT_THAT(ErrorOf(job + "--port_range 29000-29400 x"), HasSubstr("without 29400"));
  EXPECT_THAT(ErrorOf(job + "--port_range 29401 x"), HasSubstr("without 29401"));
  EXPECT_THAT(ErrorOf("--standalone --master_port 700 --port_range 600-800 x"), HasSubstr("without 700"));
  EXPECT_THAT(ErrorOf(job + "--port_range many x"),
              AllOf(HasSubstr("--port_range: \"many\""), HasSubstr("LOW-HIGH")));
}

TEST(OptionsTest, JobIsOnLoopbackOnlyIfAllItsEndpointsAre) {
  const auto on_loopback = [](const std::string& endpoints) {
    const auto options = Parse("--nnodes 2 --rdzv_endpoint " + endpoints + " x");
    EXPECT_TRUE(options.ok()) << options.status();
    return IsOnLoopback(*options, [](const std::string&) { return std::vector<std::string>{"127.0.0.1"}; });
  };
  for (const char* endpoints : {"127.0.0.1:1", "LOCALHOST", "[::1]:1", "127.0.0.1:1,localhost:2"})
    EXPECT_TRUE(on_loopback(endpoints)) << endpoints;
  for (const char* endpoints :
       {"127.example.org:1", "node2", "127.0.0.1:1,node2:1", "node2:1,127.0.0.1:1", "0.0.0.0:1"})
    EXPECT_FALSE(on_loopback(endpoints)) << endpoints;
}

TEST(OptionsTest, EveryOptionHasAReader) {
  std::set<std::string> readers;
  for (const Option& option : OptionRows()) {
    if (std::holds_alternative<OptionReader>(option.target) || std::holds_alternative<Asks>(option.target))
      readers.insert(option.spec.name);
  }
  for (const Option& option : OptionRows()) {
    EXPECT_NE(option.spec.help, "") << option.spec.name;
    EXPECT_NE(option.spec.group, "") << option.spec.name;
    if (const auto* part = std::get_if<PartOf>(&option.target)) {
      EXPECT_TRUE(readers.contains(part->name)) << option.spec.name << " is read by " << part->name;
    }
  }
}

TEST(OptionsTest, PlainOptionsSetTheirMembers) {
  const auto options = Parse(
      "--node_rank 3 --numa_binding node --local_addr 10.0.0.9 --insecure --preempt_file /tmp/go "
      "--event_log /tmp/e --log_dir /tmp/l x");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->node_rank, 3);
  EXPECT_EQ(options->numa_binding, "node");
  EXPECT_EQ(options->local_addr, "10.0.0.9");
  EXPECT_TRUE(options->insecure);
  EXPECT_EQ(options->preempt_file, "/tmp/go");
  EXPECT_EQ(options->event_log, "/tmp/e");
  EXPECT_EQ(options->log_dir, "/tmp/l");
  EXPECT_EQ(Parse("x")->node_rank, std::nullopt);
}

TEST(OptionsTest, TrainersHaveOtherDefaults) {
  const auto plain = Parse("x"), watched = Parse("--hang_timeout 5 x"), trainer = Parse("--trainer cnnA");
  EXPECT_FALSE(plain->warm_up);
  EXPECT_EQ(plain->hang_notice, Duration::zero());
  EXPECT_EQ(plain->hang_timeout, Duration::zero());
  EXPECT_EQ(watched->hang_notice, std::chrono::seconds(30));
  EXPECT_EQ(watched->hang_timeout, std::chrono::seconds(5));
  EXPECT_TRUE(trainer->warm_up);
  EXPECT_EQ(trainer->hang_notice, std::chrono::seconds(30));
  EXPECT_EQ(trainer->hang_timeout, std::chrono::minutes(10));
}

}  // namespace
}  // namespace mtrun::launcher

// Unmodified Python programs under mtrun, and the same programs under the real torchrun to prove that the
// test is correct: tools/test --full. tools/setup --peers installs their imports.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "nlohmann/json.hpp"
#include "tests/e2e/either.h"

namespace mtrun::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class TorchrunPrograms : public LauncherTest {
 protected:
  void SetUp() override {
    if (!Imports("torch")) GTEST_SKIP() << "no Python with PyTorch: tools/setup --peers makes one";
  }

  bool Imports(const std::string& module) const {
    return Program({PeersPython(), "-c", "import " + module}).Wait() == 0;
  }

  support::Overlay PythonEnvironment() const {
    support::Overlay overlay = Environment();
    overlay["PYTHON_EXEC"] = PeersPython();
    overlay["HF_HUB_OFFLINE"] = "1";
    return overlay;
  }

  std::unique_ptr<Program> Start(const std::vector<std::string>& args) const {
    return std::make_unique<Program>(Command(args), PythonEnvironment());
  }

  static std::vector<std::string> Torchrun(const std::vector<std::string>& args) {
    return Words({PeersPython(), "-m", "torch.distributed.run", "--tee", "3"}, args);
  }
  /// Starts the same program under torchrun.
  std::unique_ptr<Program> StartTorchrun(const std::vector<std::string>& args) const {
    return std::make_unique<Program>(Torchrun(args), PythonEnvironment());
  }

  static std::string Toy(const std::string& name) { return support::TestFile("support/toys/" + name); }
};

TEST_F(TorchrunPrograms, PlainDistributedDataParallel) {
  const std::vector<std::string> args = {"--standalone", "--nproc_per_node=2", Toy("torch_ddp.py")};
  const auto mtrun = Start(args);
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(From(mtrun->OutLines(), "TRAINED"), UnorderedElementsAre("TRAINED 0", "TRAINED 1"));
  const auto torchrun = StartTorchrun(args);
  EXPECT_EQ(torchrun->Wait(), 0) << torchrun->Text();
  EXPECT_THAT(From(torchrun->OutLines(), "TRAINED"), SizeIs(2));
}

TEST_F(TorchrunPrograms, TwoNodesReduceOverGloo) {
  for (const bool torchrun : {false, true}) {
    const std::vector<std::string> args = {"--nnodes=2",
                                           "--rdzv_backend=c10d",
                                           "--rdzv_id=job",
                                           "--rdzv_endpoint=" + endpoint_,
                                           "--local_addr=127.0.0.1",
                                           "--nproc_per_node=2",
                                           Toy("torch_ddp.py")};
    const auto start = [&] { return torchrun ? StartTorchrun(args) : Start(args); };
    const auto first = start(), second = start();
    EXPECT_EQ(first->Wait(), 0) << first->Text();
    EXPECT_EQ(second->Wait(), 0) << second->Text();
    EXPECT_THAT(From(second->OutLines(), "SUM 6 OF 4"), SizeIs(2));
  }
}

TEST_F(TorchrunPrograms, Behaviour71RecordedErrorIsShownAndCopied) {
  support::Overlay overlay = PythonEnvironment();
  overlay["TORCHELASTIC_ERROR_FILE"] = folder_.File("own.json");
  const std::vector<std::string> args = {"--standalone", "--nproc_per_node=2", Toy("torch_ddp.py"), "fail"};
  for (const auto& argv : {Command(args), Torchrun(args)}) {
    Program run(argv, overlay);
    EXPECT_EQ(run.Wait(), 1);
    EXPECT_THAT(run.Text(), AllOf(HasSubstr("ValueError: no such layer: conv9"),
                                  HasSubstr("torch_ddp.py\", line "), testing::ContainsRegex("rank +: 1 ")));
    const auto own = nlohmann::json::parse(support::ReadText(folder_.File("own.json")))["message"];
    EXPECT_EQ(own["message"], "ValueError: no such layer: conv9");
    EXPECT_EQ(own["errorCode"], 1);
    std::filesystem::remove(folder_.File("own.json"));
  }
}

TEST_F(TorchrunPrograms, MidRunFailureIsRecovered) {
  const auto mtrun =
      Start({"--standalone", "--nproc_per_node=2", "--max_restarts=1", Toy("torch_ddp.py"), "restart"});
  EXPECT_EQ(mtrun->Wait(), 0) << mtrun->Text();
  EXPECT_THAT(From(mtrun->OutLines(), "TRAINED"), SizeIs(2));
}

TEST_F(TorchrunPrograms, RestartUnderWarmPythonSkipsTheImportOfTorch) {
  support::WriteText(
      folder_.File("train.py"),
      "import os, sys, time\n"
      "began, warm = time.monotonic(), 'torch' in sys.modules\n"
      "import torch\n"
      "took = time.monotonic() - began\n"
      "print('attempt', os.environ['TORCHELASTIC_RESTART_COUNT'], 'warm', warm, 'pid', os.getpid(),\n"
      "      'import', round(took, 3), 'sum', torch.ones(3).sum().item(), flush=True)\n"
      "time.sleep(1000)\n");
  const auto mtrun = Start({"--standalone", "--max_restarts=20", "--warm_python", folder_.File("train.py")});
  const auto word = [](const std::string& line, const std::string& name) {
    return std::stod(line.substr(line.find(name) + name.size()));
  };
  double cold = 0;
  for (int attempt = 0; attempt <= 20; ++attempt) {
    const auto since = std::chrono::steady_clock::now();
    const auto line = mtrun->WaitForLine(absl::StrCat("attempt ", attempt, " warm"));
    const Seconds took = std::chrono::steady_clock::now() - since;
    ASSERT_TRUE(line) << mtrun->Text();
    EXPECT_THAT(*line, HasSubstr("sum 3.0"));
    if (line->find("warm True") != std::string::npos) {
      // From the kill to the line of its successor, which has torch: a fork, not the import.
      EXPECT_LT(took.count(), cold / 2) << mtrun->Text();
      EXPECT_LT(word(*line, " import "), cold / 10) << mtrun->Text();
      break;
    }
    ASSERT_LT(attempt, 20) << "the interpreter never got warm\n" << mtrun->Text();
    cold = word(*line, " import ");
    std::this_thread::sleep_for(Seconds(cold));  // time for the import by the other interpreter
    kill(static_cast<pid_t>(word(*line, " pid ")), SIGKILL);
  }
  mtrun->Signal(SIGTERM);
  EXPECT_EQ(mtrun->Wait(), 128 + SIGTERM) << mtrun->Text();
}

TEST_F(TorchrunPrograms, KubeflowsVariablesSuffice) {
  support::Overlay overlay = PythonEnvironment();
  const std::string port = endpoint_.substr(endpoint_.find(':') + 1);
  for (const auto& [name, value] : std::map<std::string, std::string>{{"PET_NNODES", "2"},
                                                                      {"PET_NPROC_PER_NODE", "1"},
                                                                      {"PET_MASTER_ADDR", "127.0.0.1"},
                                                                      {"PET_MASTER_PORT", port},
                                                                      {"MASTER_ADDR", "127.0.0.1"},
                                                                      {"MASTER_PORT", port},
                                                                      {"WORLD_SIZE", "2"},
                                                                      {"PYTHONUNBUFFERED", "1"}})
    overlay[name] = value;
  std::vector<std::unique_ptr<Program>> pods;
  for (const char* rank : {"0", "1"}) {
    overlay["PET_NODE_RANK"] = overlay["RANK"] = rank;
    pods.push_back(std::make_unique<Program>(Command({Toy("torch_ddp.py")}), overlay));
  }
  for (int rank : {0, 1}) {
    EXPECT_EQ(pods[static_cast<size_t>(rank)]->Wait(), 0) << pods[static_cast<size_t>(rank)]->Text();
    EXPECT_THAT(From(pods[static_cast<size_t>(rank)]->OutLines(), "TRAINED"),
                UnorderedElementsAre(absl::StrCat("TRAINED ", rank)));
  }
}

TEST_F(TorchrunPrograms, SigtermCheckpointIsWrittenAndResumed) {
  const std::vector<std::string> args = {"--standalone", "--nproc_per_node=2", Toy("torch_sigterm.py"),
                                         folder_.File("checkpoint.pt")};
  const auto first = Start(args);
  ASSERT_TRUE(first->WaitForLines("RUNNING", 2)) << first->Text();
  first->Signal(SIGTERM);
  EXPECT_EQ(first->Wait(), 128 + SIGTERM) << first->Text();
  EXPECT_THAT(first->Text(), HasSubstr("SAVED"));
  const auto second = Start(args);
  ASSERT_TRUE(second->WaitForLines("RESUMED", 2)) << second->Text();
  second->Signal(SIGTERM);
  EXPECT_EQ(second->Wait(), 128 + SIGTERM) << second->Text();
}

TEST_F(TorchrunPrograms, LightningsTrainer) {
  if (!Imports("lightning")) GTEST_SKIP() << "no lightning: tools/setup --peers installs it";
  const std::vector<std::string> args = {"--standalone", "--nproc_per_node=2", Toy("torch_lightning.py"),
                                         folder_.path()};
  const auto mtrun = Start(args);
  EXPECT_EQ(mtrun->Wait(support::Seconds(120)), 0) << mtrun->Text();
  EXPECT_THAT(From(mtrun->OutLines(), "FITTED"), UnorderedElementsAre("FITTED 0 2 4", "FITTED 1 2 4"));
}

TEST_F(TorchrunPrograms, AcceleratesOwnTestScript) {
  if (!Imports("accelerate.test_utils")) GTEST_SKIP() << "no accelerate: tools/setup --peers installs it";
  support::Overlay overlay = PythonEnvironment();
  overlay["ACCELERATE_USE_CPU"] = "true";
  // Restarts: PyTorch may abort while the interpreter ends, see toys/torch_ddp.py.
  Program mtrun(Command({"--standalone", "--nproc_per_node=2", "--max_restarts=4", "-m",
                         "accelerate.test_utils.scripts.test_script"}),
                overlay);
  EXPECT_EQ(mtrun.Wait(support::Seconds(400)), 0) << mtrun.Text().substr(0, 6000);
}

}  // namespace
}  // namespace mtrun::e2e

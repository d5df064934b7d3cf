// Shared by the end-to-end tests of mtrun with a trainer: a small data set, runs on it, and their records.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/launcher.h"
#include "tests/trainers/support/packed_set.h"

namespace mtrun::e2e {

/// 100 images; 12 samples per step in micro-batches of 2, so that up to six workers share it; the last step
/// of an epoch has 4.
class TrainingRuns : public LauncherTest {
 protected:
  static constexpr int kStepsPerEpoch = 9;

  void SetUp() override {
    data_ = trainers::testing::WritePackedSet(folder_.path(), "data", {.train = 100, .test = 40},
                                              trainers::testing::LearnablePixel);
  }

  /// Starts mtrun with `args` and the trainer with `more`.
  std::unique_ptr<Program> Train(const std::vector<std::string>& args, const std::string& run, int epochs,
                                 const std::vector<std::string>& more = {},
                                 const support::Overlay& overlay = {}) {
    support::Overlay environment = Environment();
    for (const auto& [name, value] : overlay) environment[name] = value;
    return std::make_unique<Program>(Command(Words(args, Trainer(run, epochs, more))), environment);
  }
  std::unique_ptr<Program> TrainHere(int workers, const std::string& run, int epochs,
                                     const std::vector<std::string>& more = {}) {
    return Train({"--standalone", "--nproc_per_node", absl::StrCat(workers)}, run, epochs, more);
  }
  std::vector<std::string> Trainer(const std::string& run, int epochs,
                                   const std::vector<std::string>& more = {}) const {
    const std::vector<std::string> flags = {"--trainer",      program_,
                                            "--data",         data_,
                                            "--model_folder", folder_.File(run),
                                            "--epochs",       absl::StrCat(epochs),
                                            "--batch_size",   "2",
                                            "--global_batch", "12",
                                            "--threads",      "1"};
    const std::vector<std::string> recipe = {"--learning_rate", "0.05", "--momentum", "0.9"};
    return Words(Words(Words(flags, precision_), program_ == "cnnA" ? recipe : std::vector<std::string>()),
                 more);
  }

  /// Returns the loss of each step that counts: a rewind removes the steps before it.
  std::map<int64_t, double> Losses(const std::string& run) const {
    std::map<int64_t, double> losses;
    for (const absl::string_view line :
         absl::StrSplit(support::ReadText(folder_.File(run) + "/metrics.jsonl"), '\n', absl::SkipEmpty())) {
      const auto json = nlohmann::json::parse(std::string(line), nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) continue;  // an incomplete line of a killed writer
      if (json.contains("rewind")) losses.erase(losses.lower_bound(json["rewind"]), losses.end());
      if (json.contains("step")) losses[json["step"]] = json["loss"];
    }
    return losses;
  }

  /// Expects an exact ledger, and the losses and weights of a single worker: the same bits if `same_bits_`.
  void ExpectUndisturbed(const std::string& run, int epochs, const std::vector<std::string>& more = {}) {
    const auto alone = TrainHere(1, "alone", epochs, more);
    ASSERT_EQ(alone->Wait(Seconds(300)), 0) << alone->Text();
    const auto expected = Losses("alone"), seen = Losses(run);
    ASSERT_EQ(expected.size(), static_cast<size_t>(epochs * kStepsPerEpoch));
    ASSERT_EQ(seen.size(), expected.size());
    for (const auto& [step, loss] : expected)
      EXPECT_NEAR(seen.at(step), loss, same_bits_ ? 0 : 1e-9 * std::abs(loss)) << "step " << step;
    const auto weights = [&](const std::string& of) {
      return support::ReadText(folder_.File(of) + "/model.safetensors");
    };
    EXPECT_TRUE(!same_bits_ || weights(run) == weights("alone")) << "the weights have other bits";
    ExpectExactlyOnce({run});
  }

  /// `flags` are options of tools/verify_ledger.
  void ExpectExactlyOnce(const std::vector<std::string>& runs, const std::vector<std::string>& flags = {}) {
    std::vector<std::string> command = {"python3", support::TestFile("../tools/verify_ledger")};
    for (const std::string& run : runs) command.push_back(folder_.File(run));
    Program verify(Words(command, flags));
    EXPECT_EQ(verify.Wait(), 0) << verify.Text();
  }

  /// Returns the number of complete checkpoints.
  int Checkpoints(const std::string& run) const {
    int complete = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File(run))) {
      if (entry.is_symlink()) continue;  // best and latest
      const bool whole = std::filesystem::exists(entry.path() / "DONE");
      // DONE exists before the folder has its final name.
      complete += whole && entry.path().filename().string().front() != '.' ? 1 : 0;
    }
    return complete;
  }

  /// Returns the trainer's processes.
  std::set<pid_t> Workers() const {
    std::set<pid_t> workers;
    for (const pid_t pid : mark_.Alive()) {
      if (support::ReadText(absl::StrCat("/proc/", pid, "/comm")) == program_ + "\n") workers.insert(pid);
    }
    return workers;
  }

  std::string program_ = "cnnA";
  std::vector<std::string> precision_ = {"--precision", "float64"};
  bool same_bits_ = true;  // false: where a device or --sync_bn adds in another order (docs/exact.md)
  std::string data_;
};

}  // namespace mtrun::e2e

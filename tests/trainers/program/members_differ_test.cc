// Real workers are refused by name if they differ in a setting that they must share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainers/support/trainer_program.h"

namespace mtrun::trainers {
namespace {

using ::testing::AllOf;
using testing::Args;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class MembersDiffer : public ::testing::Test {
 protected:
  /// Runs two workers with flags of their own, expects a refusal by both and returns rank 0's output.
  std::string Refusal(const std::string& program, const std::vector<Args>& own) {
    return Output(program, own, {}, 2);
  }
  /// Runs workers with flags of their own, the last one with `last` in its environment. Expects each to end
  /// with `status` and returns rank 0's output.
  std::string Output(const std::string& program, const std::vector<Args>& own, const support::Overlay& last,
                     int status) {
    if (data_.empty())
      data_ =
          testing::WritePackedSet(folder_.path(), "data", {.train = 8, .test = 4}, testing::LearnablePixel);
    const std::string port = std::to_string(support::FreePort());
    std::vector<std::unique_ptr<support::Program>> workers;
    for (size_t rank = 0; rank < own.size(); ++rank) {
      Args args = {"--data",      data_, "--model_folder", folder_.File("run"),
                   "--max_steps", "1",   "--batch_size",   "2"};
      args.insert(args.end(), own[rank].begin(), own[rank].end());
      support::Overlay overlay = testing::NoLauncher();
      if (rank + 1 == own.size()) overlay.insert(last.begin(), last.end());
      overlay["RANK"] = std::to_string(rank);
      overlay["WORLD_SIZE"] = std::to_string(own.size());
      overlay["MASTER_ADDR"] = "127.0.0.1";
      overlay["MASTER_PORT"] = port;
      workers.push_back(testing::Start(program, args, overlay));
    }
    for (const auto& worker : workers) EXPECT_EQ(worker->Wait(), status) << worker->Text();
    return workers.front()->Text();
  }
  support::TemporaryFolder folder_;
  std::string data_;
};

TEST_F(MembersDiffer, InTheMemoryFormat) {
  EXPECT_THAT(Refusal("cnnA", {{"--channels_last", "on"}, {"--channels_last", "off"}}),
              HasSubstr("the workers of this job differ in channels_last: off (rank 1), on (rank 0)"));
}

TEST_F(MembersDiffer, InThePrecision) {
  EXPECT_THAT(Refusal("cnnA", {{"--amp", "bf16"}, {"--amp", "off"}}),
              HasSubstr("the workers of this job differ in amp: bf16 (rank 0), off (rank 1)"));
}

/// The resolved value of `auto` is compared, not the setting.
TEST_F(MembersDiffer, InTheResolvedValueOfAChoice) {
  EXPECT_THAT(Refusal("cnnA", {{"--amp", "auto", "--device", "auto"}, {"--amp", "bf16", "--device", "cpu"}}),
              HasSubstr("the workers of this job differ in amp: bf16 (rank 1), off (rank 0)"));
}

/// Otherwise one worker would look for a checkpoint and wait for the other's answer.
TEST_F(MembersDiffer, InResume) {
  EXPECT_THAT(Refusal("cnnA", {{}, {"--resume=false"}}),
              HasSubstr("the workers of this job differ in resume: 0 (rank 1), 1 (rank 0)"));
}

TEST_F(MembersDiffer, InATextWithSpaces) {
  EXPECT_THAT(
      Refusal("diffusion", {{"--mults", "1, 2", "--channels", "4"}, {"--mults", "1, 1", "--channels", "4"}}),
      HasSubstr("the workers of this job differ in mults: 1, 1 (rank 1), 1, 2 (rank 0)"));
}

/// LibTorch computes with other instructions there, so the last bits can differ.
TEST_F(MembersDiffer, InTheKindOfMachine) {
  const support::Overlay baseline = {{"ATEN_CPU_CAPABILITY", "default"}};
  const Args require = {"--same_kind", "require"};
  EXPECT_THAT(Output("cnnA", {require, require}, baseline, 2),
              AllOf(HasSubstr("--same_kind require: machines of different kinds compute this run"),
                    ContainsRegex("(DEFAULT|NO AVX), LibTorch .*\\(rank 1\\)")));
  EXPECT_THAT(Output("cnnA", {{}, {}}, baseline, 0),
              AllOf(HasSubstr("machines of different kinds"), HasSubstr("--same_kind require refuses that")));
  EXPECT_THAT(support::ReadText(folder_.File("run/metrics.jsonl")),
              ContainsRegex("\"machines\":\\[\"[^]]*LibTorch[^]]*\",\"[^]]*LibTorch[^]]*\"\\]"));
}

TEST_F(MembersDiffer, InTheKindOfMachineFromTheRunsSoFar) {
  Output("cnnA", {{}}, {}, 0);
  const support::Overlay baseline = {{"ATEN_CPU_CAPABILITY", "default"}};
  EXPECT_THAT(Output("cnnA", {{"--max_steps", "2", "--same_kind", "require"}}, baseline, 2),
              ContainsRegex("require: this run was computed on .* and continues on .*LibTorch"));
  EXPECT_THAT(Output("cnnA", {{"--max_steps", "2"}}, baseline, 0),
              HasSubstr("its last bits can differ from step 1 on"));
}

/// This applies on one host too, although nothing is sent that could be encrypted.
TEST_F(MembersDiffer, InEncryption) {
  EXPECT_THAT(
      Refusal("cnnA", {{"--encrypt_gradients"}, {}}),
      HasSubstr("does not encrypt what it sends, but this rank does: give --encrypt_gradients to all"));
}

}  // namespace
}  // namespace mtrun::trainers

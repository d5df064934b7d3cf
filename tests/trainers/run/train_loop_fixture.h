// Runs the real loop over a toy network and data set, with threads as workers: no launcher, no processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "tests/support/program.h"
#include "tests/trainers/support/thread_job.h"
#include "trainers/run/loop/train_loop.h"

namespace mtrun::trainers::testing {

inline constexpr int kSide = 8;  // side of the images, in pixels

/// The result of one member.
struct MemberResult {
  absl::StatusOr<Outcome> outcome = absl::UnknownError("did not run");
  at::Tensor weight;
  std::optional<int64_t> done;
};

/// A data set of 24 images: 6 steps an epoch of 4 samples in micro-batches of 1.
class TrainLoopTest : public ::testing::Test {
 protected:
  void SetUp() override;

  /// Trains `member` as a part of `job` in run folder `run`, after which it leaves.
  MemberResult Train(ThreadJob& job, int member, const std::string& run,
                     ThreadMembership::Hook hook = nullptr);
  /// Trains `world` members, each with the hook of the test, if any.
  std::vector<MemberResult> TrainAll(int world, const std::string& run,
                                     const std::map<int, ThreadMembership::Hook>& hooks = {});
  at::Tensor TrainAlone();

  std::vector<double> Losses(const std::string& run) const;
  static void ExpectComplete(const MemberResult& result);
  /// Expects the run to equal the run "alone", except for the order of sums over workers.
  void ExpectSameRun(const std::string& run, const at::Tensor& weight, const at::Tensor& reference) const;
  /// Returns tools/verify_ledger's exit status and output; the toy's settings do not define the length.
  std::pair<int, std::string> Verify(const std::string& run) const;

  const support::TemporaryFolder folder_;
  std::map<int, std::function<std::unique_ptr<MicroBatchSource>(MicroBatchSource&)>> mutants_;  // by member
  std::function<std::unique_ptr<Task>(std::unique_ptr<Task>)> tasks_;  // null: the toy itself
  std::string data_;
  TrainOptions options_;
  Mutex mu_;
  std::map<int, at::Tensor> weights_ ABSL_GUARDED_BY(mu_);  // weights that members train
  std::atomic<int> finished_{0};
  uint64_t generations_ = 0;
  std::function<absl::Status()> on_results_;  // called on a member's thread when it writes them; null: OK
  bool devices_ = false;                      // members of TrainAll have devices
  bool warm_up_ = false;                      // members warm up before they train
  Duration grace_ = {};                       // from the drain signal to SIGKILL
  bool launcher_ = true;                      // if false, members of TrainAll were started manually
  bool nodes_ = false;  // members of TrainAll are nodes with folders of their own, <run><member>
  std::map<int, std::string> agents_;  // by member, "": none
  std::function<absl::StatusOr<UniqueFd>(const std::string& folder)> lock_folder_ = LockFolder;
  bool validates_ = false;                               // epochs are evaluated on other images than the test
  std::vector<RunReport> reports_ ABSL_GUARDED_BY(mu_);  // of the members that wrote results
};

}  // namespace mtrun::trainers::testing

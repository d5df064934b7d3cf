#include "tests/trainers/run/train_loop_fixture.h"

#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tests/trainers/support/packed_set.h"
#include "tests/trainers/support/trainer_program.h"
#include "trainers/tasks/classifier.h"

namespace mtrun::trainers::testing {
namespace {

constexpr int kClasses = 4;

/// A single linear layer over all pixels.
struct Linear : torch::nn::Module {
  explicit Linear(double scale)
      : weight(register_parameter("weight", at::full({3 * kSide * kSide, kClasses}, scale, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& images) { return images.flatten(1).matmul(weight); }
  at::Tensor weight;
};

}  // namespace

void TrainLoopTest::SetUp() {
  data_ = WritePackedSet(folder_.path(), "set",
                         {.height = kSide, .width = kSide, .classes = kClasses, .train = 24, .test = 8},
                         LearnablePixel);
  options_.data = data_;
  options_.epochs = 2;
  options_.plan = {.global_batch = 4, .micro_batch = 1};
  options_.optimizer.momentum = 0.9;
  options_.schedule.base = 0.01;
  options_.seed = 3;
  options_.augmentation = {};
}

MemberResult TrainLoopTest::Train(ThreadJob& job, int member, const std::string& run,
                                  ThreadMembership::Hook hook) {
  MemberResult result;
  TrainOptions options = options_;
  options.model_folder = folder_.path() + "/" + run;
  const auto train = datasets::PackedSplit::Open(data_, "train");
  const auto test = datasets::PackedSplit::Open(data_, "test");
  ThreadMembership membership(job, member, std::move(hook));
  const absl::Status entered = membership.Enter();
  if (!train.ok() || !test.ok() || !entered.ok()) {
    ADD_FAILURE() << train.status() << test.status() << entered;
    job.Gone(member);
    return result;
  }
  // Members start with different weights; rank 0's count.
  const auto net = std::make_shared<Linear>(0.01 * (member + 1));
  {
    const MutexLock lock(mu_);
    weights_[member] = net->weight;
  }
  std::unique_ptr<Task> task = Classify(AsModel(net), kClasses);
  if (tasks_) task = tasks_(std::move(task));
  ProgressLine progress(/*quiet=*/true, {});
  const std::string name = "toy";
  TrainLoop loop({.program = name,
                  .options = options,
                  .train = *train,
                  .test = *test,
                  .task = *task,
                  .batch = {.image_size = kSide, .dtype = at::kDouble},
                  .final_test = validates_ ? &*test : nullptr,
                  .identity = {.run = {{"program", name}, {"data", train->digest()}},
                               .generation = {},
                               .not_of_run = {}},
                  .settings = "toy:\n",
                  .agent = agents_.count(member) != 0 ? agents_.at(member) : "",
                  .step_source = mutants_.count(member) != 0 ? mutants_.at(member) : nullptr,
                  .lock_folder = lock_folder_,
                  .grace = grace_,
                  .finish = [this](const TrainState&, const RunReport& report) -> absl::Status {
                    if (on_results_) MT_RETURN_IF_ERROR(on_results_());
                    const MutexLock lock(mu_);
                    reports_.push_back(report);
                    ++finished_;
                    return absl::OkStatus();
                  }},
                 membership, progress, MonotonicNow());
  const absl::Status warm = warm_up_ ? loop.WarmUp() : absl::OkStatus();
  EXPECT_TRUE(warm.ok()) << warm;
  result.outcome = loop.Run();
  result.weight = net->weight.detach().clone();
  result.done = membership.done();
  job.Gone(member);
  return result;
}

std::vector<MemberResult> TrainLoopTest::TrainAll(int world, const std::string& run,
                                                  const std::map<int, ThreadMembership::Hook>& hooks) {
  std::set<int> members;
  for (int i = 0; i < world; ++i) members.insert(i);
  ThreadJob job(members);
  if (devices_) job.UseDevices();
  if (nodes_) job.UseNodes();
  if (!launcher_) job.UseNoLauncher();
  std::vector<MemberResult> results(static_cast<size_t>(world));
  std::vector<std::thread> threads;
  for (int i = 0; i < world; ++i) {
    threads.emplace_back([&, i] {
      const auto hook = hooks.find(i);
      const std::string folder = nodes_ ? absl::StrCat(run, i) : run;
      results[static_cast<size_t>(i)] = Train(job, i, folder, hook == hooks.end() ? nullptr : hook->second);
    });
  }
  for (std::thread& thread : threads) thread.join();
  generations_ = job.generation();
  return results;
}

at::Tensor TrainLoopTest::TrainAlone() {
  const std::vector<MemberResult> alone = TrainAll(1, "alone");
  ExpectComplete(alone[0]);
  return alone[0].weight;
}

std::vector<double> TrainLoopTest::Losses(const std::string& run) const {
  std::vector<double> losses;
  for (const StepLine& step : Steps(folder_.path() + "/" + run)) losses.push_back(step.loss);
  return losses;
}

void TrainLoopTest::ExpectComplete(const MemberResult& result) {
  ASSERT_TRUE(result.outcome.ok()) << result.outcome.status();
  EXPECT_TRUE(result.outcome->complete);
  EXPECT_EQ(result.done, 12);
}

void TrainLoopTest::ExpectSameRun(const std::string& run, const at::Tensor& weight,
                                  const at::Tensor& reference) const {
  EXPECT_TRUE(at::allclose(weight, reference, 1e-9, 1e-12));
  const std::vector<double> losses = Losses(run), alone = Losses("alone");
  ASSERT_EQ(losses.size(), alone.size());
  for (size_t step = 0; step < losses.size(); ++step) EXPECT_NEAR(losses[step], alone[step], 1e-9) << step;
}

std::pair<int, std::string> TrainLoopTest::Verify(const std::string& run) const {
  support::Program verify({"python3", support::TestFile("../tools/verify_ledger"), folder_.File(run),
                           "--data", data_, "--partial"});
  const int status = verify.Wait().value_or(-1);
  return {status, verify.Text()};
}

}  // namespace mtrun::trainers::testing

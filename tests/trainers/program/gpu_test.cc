// Tests that need a GPU; skipped, with the reason, if there is none.
#include <cmath>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>
#ifdef MT_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/port.h"
#include "tests/trainers/support/rank_threads.h"
#include "tests/trainers/support/trainer_program.h"
#include "trainers/collectives/all_reduce.h"
#include "trainers/collectives/cpu_backend.h"
#include "trainers/collectives/device_group.h"
#include "trainers/collectives/nccl_device.h"
#include "trainers/input/resident_images.h"

namespace mtrun::trainers {
namespace {

using testing::Args;
using testing::LearnablePixel;
using testing::StepLine;
using testing::Steps;
using testing::WritePackedSet;

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override { Need(1); }
  /// Skips the test if fewer than `gpus` GPUs are usable.
  void Need(int gpus) {
    const int there = torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
    if (there < gpus) {
      GTEST_SKIP() << "needs " << gpus << (gpus == 1 ? " GPU, " : " GPUs, ") << there
                   << " usable here (no driver, no GPU, or a CPU-only LibTorch)";
    }
  }
  /// Returns the data set, which the first call creates.
  const std::string& Data() {
    if (data_.empty()) {
      data_ = WritePackedSet(folder_.path(), "data", {.train = 100, .test = 20}, LearnablePixel);
    }
    return data_;
  }
  /// Returns the 13 steps of a run with two micro-batches of 8 a step and a short last step per epoch. Worker
  /// k of `world` uses GPU k.
  std::vector<StepLine> Train(const std::string& program, const std::string& run, int world,
                              const Args& more) {
    Args args = {"--data",         Data(), "--model_folder", folder_.File(run),
                 "--global_batch", "16",   "--batch_size",   "8",
                 "--max_steps",    "13"};
    args.insert(args.end(), more.begin(), more.end());
    support::Overlay overlay = testing::NoLauncher();
    overlay["WORLD_SIZE"] = overlay["LOCAL_WORLD_SIZE"] = absl::StrCat(world);
    overlay["MASTER_ADDR"] = "127.0.0.1";
    overlay["MASTER_PORT"] = absl::StrCat(support::FreePort());
    std::vector<std::unique_ptr<support::Program>> workers;
    for (int rank = 0; rank < world; ++rank) {
      overlay["RANK"] = overlay["LOCAL_RANK"] = absl::StrCat(rank);
      workers.push_back(testing::Start(program, args, overlay));
    }
    for (const auto& worker : workers) EXPECT_EQ(worker->Wait(), 0) << worker->Text();
    return Steps(folder_.File(run));
  }
  static void ExpectNear(const std::vector<StepLine>& got, const std::vector<StepLine>& want,
                         double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < want.size(); ++k) {
      EXPECT_NEAR(got[k].loss, want[k].loss, tolerance * std::abs(want[k].loss)) << "step " << k;
    }
  }

  support::TemporaryFolder folder_;

 private:
  std::string data_;
};

TEST_F(GpuTest, TrainsLikeTheCpu) {
  const Args exact = {"--precision", "float64", "--augment", "--crop_padding", "2"};
  for (const std::string program : {"cnnA", "cnnB"}) {
    Args on_cpu = exact, on_gpu = exact;
    on_cpu.insert(on_cpu.end(), {"--device", "cpu"});
    on_gpu.insert(on_gpu.end(), {"--device", "cuda"});
    ExpectNear(Train(program, program + "gpu", 1, on_gpu), Train(program, program + "cpu", 1, on_cpu), 1e-6);
  }
}

TEST_F(GpuTest, SynchronisedBatchNormTrainsLikeTheCpu) {
  const Args exact = {"--precision", "float64", "--sync_bn"};
  Args on_cpu = exact, on_gpu = exact;
  on_cpu.insert(on_cpu.end(), {"--device", "cpu"});
  on_gpu.insert(on_gpu.end(), {"--device", "cuda"});
  ExpectNear(Train("cnnB", "sync_gpu", 1, on_gpu), Train("cnnB", "sync_cpu", 1, on_cpu), 1e-6);
}

/// Copies run concurrently with the computation: one that arrives too late or too early changes a loss.
TEST_F(GpuTest, ResidentAndCopiedImagesGiveTheSameRun) {
  const Args exact = {"--device", "cuda", "--precision", "float64", "--augment", "--crop_padding", "2"};
  Args resident = exact, copied = exact;
  resident.insert(resident.end(), {"--resident", "on"});
  copied.insert(copied.end(), {"--resident", "off"});
  ExpectNear(Train("cnnA", "resident", 1, resident), Train("cnnA", "copied", 1, copied), 1e-9);
}

TEST_F(GpuTest, ResidentImagesAreBitIdentical) {
  const auto split = datasets::PackedSplit::Open(Data(), "train");
  ASSERT_TRUE(split.ok()) << split.status();
  const at::Device gpu(at::kCUDA, 0);
  const std::vector<int64_t> ids = {5, 99, 0, 5};
  const std::vector<Placement> placements = {{2, -3, true}, {}, {-31, 4, false}, {40, 0, true}};
  const Batch want = BatchMaker(*split, {}).Make(ids, placements);
  for (const bool resident : {true, false}) {
    const Batch got = MakeImageBatches(*split, {.device = gpu, .resident = resident})->Make(ids, placements);
    EXPECT_TRUE(got.images.cpu().equal(want.images)) << resident;
    EXPECT_TRUE(got.labels.cpu().equal(want.labels)) << resident;
  }
}

TEST_F(GpuTest, MixedPrecisionStepsWork) {
  for (const std::string amp : {"fp16", "bf16"}) {
    const auto steps = Train("vit", amp, 1, {"--device", "cuda", "--amp", amp});
    ASSERT_EQ(steps.size(), 13u);
    for (const StepLine& step : steps) EXPECT_TRUE(std::isfinite(step.loss));
  }
}

/// Covers short last steps, dropout, augmentation, the schedule, clipping, the average and the loss scale.
TEST_F(GpuTest, CapturedStepsEqualOrdinarySteps) {
  const std::vector<std::pair<std::string, Args>> runs = {
      {"cnnA", {"--precision", "float64", "--augment", "--crop_padding", "2", "--resident", "on"}},
      {"cnnA", {"--precision", "float64", "--augment", "--crop_padding", "2", "--resident", "off"}},
      {"cnnB", {"--clip_norm", "1", "--schedule", "cosine", "--optimizer", "sgd", "--momentum", "0.9"}},
      {"vit", {"--amp", "fp16", "--clip_norm", "1", "--ema_decay", "0.9"}},
      {"vit", {"--amp", "off", "--rand_augment", "2"}},
      {"diffusion", {"--conditional", "--channels", "32"}}};
  for (size_t k = 0; k < runs.size(); ++k) {
    const auto& [program, more] = runs[k];
    SCOPED_TRACE(absl::StrCat(program, " ", absl::StrJoin(more, " ")));
    Args eager = more, graph = more;
    eager.insert(eager.end(), {"--device", "cuda", "--tf32=false"});
    graph.insert(graph.end(), {"--device", "cuda", "--tf32=false", "--graph"});
    ExpectNear(Train(program, absl::StrCat("graph", k), 1, graph),
               Train(program, absl::StrCat("eager", k), 1, eager), 1e-2);
  }
}

/// As much as one GPU can show.
TEST_F(GpuTest, NcclConnectsSumsAndAborts) {
  const at::Device gpu(at::kCUDA, 0);
  const auto make = collectives::NcclDevices(gpu);
  ASSERT_TRUE(make.ok()) << make.status();
  const auto device = (*make)({}, testing::MakeThreadBootstrap());
  ASSERT_EQ(device->Connect(), absl::OkStatus());
  const at::Tensor numbers = at::arange(1000, gpu);
  const auto sum = device->StartAllReduce(numbers, c10d::ReduceOp::SUM);
  collectives::Waiting(device.get(), [&] { sum->wait(); });
  EXPECT_TRUE(numbers.cpu().equal(at::arange(1000)));
  EXPECT_EQ(device->CurrentWait(), 0u) << "it is past it";
  EXPECT_EQ(device->Error(), absl::OkStatus());
  device->Abort();
  EXPECT_EQ(device->Error().code(), absl::StatusCode::kAborted);
}

/// The process group's own destructor warns if it was not shut down.
TEST_F(GpuTest, NcclShutsDownWithoutWarnings) {
  const auto make = collectives::NcclDevices({at::kCUDA, 0});
  ASSERT_TRUE(make.ok()) << make.status();
  auto device = (*make)({}, testing::MakeThreadBootstrap());
  ASSERT_EQ(device->Connect(), absl::OkStatus());
  ::testing::internal::CaptureStderr();
  device.reset();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

#ifdef MT_CUDA
/// A pool hands out its streams in rotation, so eventually NCCL would get the one that --graph computes in.
TEST_F(GpuTest, NcclDoesNotTakeAComputeStreamOfThePool) {
  const at::Device gpu(at::kCUDA, 0);
  const auto take = [&] { return c10::cuda::getStreamFromPool(/*isHighPriority=*/false, gpu.index()); };
  std::vector<c10::cuda::CUDAStream> pool{take()};
  while (true) {
    const c10::cuda::CUDAStream next = take();
    if (next == pool.front()) break;
    pool.push_back(next);
  }
  ASSERT_GT(pool.size(), 1u);
  const auto make = collectives::NcclDevices(gpu);
  ASSERT_TRUE(make.ok()) << make.status();
  const auto device = (*make)({}, testing::MakeThreadBootstrap());
  ASSERT_EQ(device->Connect(), absl::OkStatus());
  EXPECT_EQ(take(), pool[1]) << "the next one in turn";
}
#endif

class TwoGpusTest : public GpuTest {
 protected:
  void SetUp() override { Need(2); }
};

/// Uses a generation's first sum, about which NCCL knows the least.
TEST_F(TwoGpusTest, SumThatAMemberDoesNotEnterEndsWithTheGroup) {
  const collectives::DeviceMaker devices = [](const collectives::GroupMember& member, auto bootstrap) {
    return (*collectives::NcclDevices({at::kCUDA, static_cast<at::DeviceIndex>(member.rank)}))(member,
                                                                                               bootstrap);
  };
  std::promise<void> waits;
  testing::RunRanksWithDevices(2, devices, [&](int rank, const auto& group) {
    ASSERT_TRUE(group.ok()) << group.status();
    if (rank == 1) {
      waits.get_future().wait();
      collectives::CpuBackendOf(**group)->group().Abort("a fault");
      return;
    }
    const at::Device gpu(at::kCUDA, 0);
    const at::Tensor numbers = at::ones({1000}, gpu);
    collectives::AllReduce(*group, numbers);  // the device waits, but this thread does not
    while (collectives::WaitingFor(*group) == Duration::zero()) std::this_thread::yield();
    waits.set_value();
    numbers.cpu();
    EXPECT_FALSE(collectives::GroupStatus(*group).ok());
  });
}

TEST_F(TwoGpusTest, NcclGivesTheSameRunAsOneWorker) {
  const Args exact = {"--device", "cuda", "--precision", "float64"};
  const auto one = Train("cnnB", "one", 1, exact);
  ExpectNear(Train("cnnB", "two", 2, exact), one, 1e-9);
  Args sync = exact;  // in an epoch's short last step one worker has no samples
  sync.push_back("--sync_bn");
  ExpectNear(Train("cnnB", "two_sync", 2, sync), Train("cnnB", "one_sync", 1, sync), 1e-9);
  Args graph = exact;
  graph.push_back("--graph");
  // The kernels use a float32 learning rate.
  ExpectNear(Train("cnnB", "graph", 2, graph), one, 1e-5);
}

}  // namespace
}  // namespace mtrun::trainers

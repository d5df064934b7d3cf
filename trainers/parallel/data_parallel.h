// Data parallel training: gradients are views of flat buckets, and each bucket's sum over all workers starts
// while the backward pass still computes the others. Losses are weighted by n_micro_batch / N before
// backward, so a plain sum is the gradient of the step's mean loss, whatever the split. Not thread-safe;
// autograd's hooks run on the thread that calls backward.
//
// A step is: BeginStep; backward of every own micro-batch but the last; SetNote and LastRound; backward of
// the last; FinishStep. An idle member calls BeginStep, SetNote and FinishStep only. After an error the
// gradients are in an unknown state: the step is aborted.
//
// Nothing is added to zeros: what the first backward pass of a step finds is taken as it is, by a worker
// alone for good, by others into the bucket.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "absl/status/status.h"
#include "trainers/collectives/cpu_group.h"
#include "trainers/collectives/device_group.h"
#include "trainers/collectives/types.h"
#include "trainers/parallel/buckets.h"

namespace mtrun::trainers {

class DataParallel {
 public:
  static constexpr int64_t kDefaultBucketBytes = 8 << 20;

  enum class Gradients {
    kFree,
    kFixed,  // the same tensors in each step, for captures of its work: buckets also for a worker alone
  };

  /// `parameters`: those that are trained, of one dtype and device; their .grad is this object's.
  /// `group`: null for a worker alone, which then has no hook and no cost.
  DataParallel(std::vector<at::Tensor> parameters, collectives::ProcessGroup group,
               int64_t bucket_bytes = kDefaultBucketBytes, Gradients kind = Gradients::kFree);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;

  /// A tensor that every step sums as well, of the same shape on all members; its values are complete when
  /// the last forward pass of the step is done. An empty one is passed over.
  void SumAlso(const at::Tensor& tensor);

  /// There are no gradients yet; the note is empty.
  void BeginStep();
  /// What this worker tells the others with the last bucket, as many bytes on all; before the last backward.
  /// Only where notes_ride(): the sums of a device say nothing of the worker that takes part in them.
  void SetNote(std::string note) { note_ = std::move(note); }
  bool notes_ride() const { return device_ == nullptr && parameters_.back().is_cpu(); }
  /// The next backward is this worker's last one of the step: each bucket is reduced as soon as it is
  /// complete, and the tensors of SumAlso at once.
  void LastRound();
  /// Starts what has not been started, waits for everything. Then gradients are sums over all workers.
  absl::Status FinishStep();
  /// Everybody's, by rank, after FinishStep; where they ride.
  const std::vector<std::string>& notes() const { return notes_->all; }
  /// A sum over each bucket, or each gradient where there are none, float64, on the device: where all of
  /// these are finite, so are the gradients. After FinishStep.
  at::Tensor Sums() const;
  /// By their values: of `sums` read from the device, or where one has overflowed of the gradients
  /// themselves.
  bool GradientsAreFinite(const at::Tensor& sums) const;

  const collectives::ProcessGroup& group() const { return group_; }
  /// gradients()[i] belongs to parameter i and has its strides. Unless gradients_stay() other tensors after
  /// each FinishStep.
  const std::vector<at::Tensor>& gradients() const { return gradients_; }
  bool gradients_stay() const { return !flat_.empty(); }

 private:
  struct Hook;
  void MakeBuckets(int64_t bucket_bytes);
  void AddHooks();
  void TakeGradients();
  void TakeIntoBucket(size_t parameter);
  void FillBuckets();
  void OnGradient(size_t parameter);
  void StartReadyBuckets();
  void StartBucket(size_t bucket);
  void StartAlso();

  // Constant after construction.
  std::vector<at::Tensor> parameters_;
  collectives::ProcessGroup group_;
  collectives::DeviceGroup* device_ = nullptr;  // of the group, where it sums the gradients
  const bool fixed_;
  std::vector<Bucket> buckets_;    // none for a worker alone, unless fixed_
  std::vector<at::Tensor> flat_;   // one per bucket
  std::vector<size_t> bucket_of_;  // by parameter
  std::vector<at::Tensor> also_;
  std::vector<std::unique_ptr<Hook>> hooks_;

  // State of the running step.
  std::vector<at::Tensor> gradients_;  // with buckets views of flat_, which stay
  std::vector<bool> taken_;            // by parameter: its gradient has come into the bucket
  bool last_round_ = false;
  std::string note_;
  std::shared_ptr<collectives::Notes> notes_;
  size_t started_ = 0;           // buckets whose reduction has been started: always the first ones
  std::vector<size_t> missing_;  // gradients that each bucket still waits for
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;       // by bucket
  std::vector<c10::intrusive_ptr<c10d::Work>> also_works_;  // as also_; empty until they have been started
};

}  // namespace mtrun::trainers

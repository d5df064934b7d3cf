// Data parallel training: gradients are views of flat buckets, and each bucket's sum over all workers starts
// while the backward pass still computes the others. Losses are weighted by n_micro_batch / N before
// backward, so a plain sum is the gradient of the step's mean loss, whatever the split. Not thread-safe;
// autograd's hooks run on the thread that calls backward.
//
// A step is: BeginStep; backward and EndPass of every own micro-batch but the last; SetNote and LastRound;
// backward and EndPass of the last; FinishStep. An idle member calls BeginStep, SetNote and FinishStep only.
// After an error the gradients are undefined and the step is aborted.
//
// On CPUs the order of the sums is a tree over the step's micro-batches, so the bits of the gradients do not
// depend on the number of workers (docs/exact.md). Devices, and kFixed, add pass by pass and then rank by
// rank: autograd adds to the first gradient of a step, which a worker alone keeps and a member of a group
// copies into the bucket.
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
#include "trainers/parallel/leaf_adder.h"
#include "trainers/parallel/step_tree.h"

namespace mtrun::trainers {

class DataParallel {
 public:
  static constexpr int64_t kDefaultBucketBytes = 8 << 20;

  enum class Gradients {
    kFree,
    kFixed,  // the same tensors in each step, for captures of its work; a worker alone has buckets too
  };

  /// `parameters`: the trained ones, of one dtype and device; their .grad belongs to this object. `group`:
  /// null for a worker alone, which then has no hook and no cost. `micro_batches`: of a whole step; the ranks
  /// share them by MicroBatchesOf, one a pass. 0: passes of any kind, without a tree.
  DataParallel(std::vector<at::Tensor> parameters, collectives::ProcessGroup group,
               int64_t bucket_bytes = kDefaultBucketBytes, Gradients kind = Gradients::kFree,
               int64_t micro_batches = 0);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;

  /// Adds a tensor that every step sums as well, of the same shape on all members. Its values must be
  /// complete after the step's last forward pass. With a tree each pass adds to zeros, because the tensor is
  /// zero again after each. An empty tensor is ignored.
  void AddReducedTensor(const at::Tensor& tensor);

  /// Starts a step with no gradients and an empty note. `filled`: the step's micro-batches that have samples,
  /// the first ones; only with a tree.
  void BeginStep(int64_t filled = 0);
  /// Ends a pass, after its backward.
  void EndPass();
  /// Sets the note that goes to the others with the last bucket, of the same length on all members. Call it
  /// before the last backward, and only if piggybacks_record(): a device's sums carry no notes.
  void SetNote(std::string note) { note_ = std::move(note); }
  bool piggybacks_record() const { return device_ == nullptr && parameters_.back().is_cpu(); }
  /// Marks the next backward as this worker's last one of the step: each bucket is reduced as soon as it is
  /// complete, and the tensors of AddReducedTensor at once.
  void LastRound();
  /// Starts the sums that have not been started and waits for all. Gradients are then sums over all workers.
  absl::Status FinishStep();
  /// Returns the notes of all members by rank, after FinishStep, if piggybacks_record().
  const std::vector<std::string>& notes() const { return notes_->all; }
  /// Returns a sum of each bucket, or of each gradient if there are no buckets, float64, on the device. If
  /// all sums are finite, so are the gradients. Call it after FinishStep.
  at::Tensor Sums() const;
  /// Returns true if all gradients are finite. Reads `sums`, copied from the device, and if one has
  /// overflowed the gradients themselves.
  bool GradientsAreFinite(const at::Tensor& sums) const;

  const collectives::ProcessGroup& group() const { return group_; }
  /// gradients()[i] belongs to parameter i and has its strides; new tensors after each FinishStep, unless
  /// gradients_stay().
  const std::vector<at::Tensor>& gradients() const { return gradients_; }
  bool gradients_stay() const { return !flat_.empty(); }
  bool sums_in_tree() const { return micro_batches_ > 0; }

 private:
  struct Hook;
  void MakeBuckets(int64_t bucket_bytes);
  void AddHooks();
  void MakePlaces();
  void TakeGradients();
  void TakeIntoBucket(size_t parameter);
  void FillBuckets();
  void Push(size_t parameter);
  void PushReducedTensors();
  c10::intrusive_ptr<c10d::Work> StartSum(const at::Tensor& flat, const at::Tensor& partials,
                                          std::shared_ptr<collectives::Notes> notes);
  void OnGradient(size_t parameter);
  void StartReadyBuckets();
  void StartBucket(size_t bucket);
  void StartAlso();

  // Constant after construction.
  std::vector<at::Tensor> parameters_;
  collectives::ProcessGroup group_;
  collectives::DeviceGroup* device_ = nullptr;  // the group's, if it sums the gradients
  const bool fixed_;
  int64_t micro_batches_;         // of a whole step; 0: no tree
  std::vector<Bucket> buckets_;   // none for a worker alone, unless fixed_
  std::vector<at::Tensor> flat_;  // one per bucket; with a tree the first of its partial sums
  // With a tree in a group: partial sums [most, numel] of each bucket and of each of also_, and their places
  // by partial sum, then by parameter or number in also_.
  std::vector<at::Tensor> partials_, also_partials_;
  std::vector<std::vector<at::Tensor>> places_, also_places_;
  std::vector<size_t> bucket_of_;  // by parameter
  std::vector<at::Tensor> also_;
  std::vector<std::unique_ptr<Hook>> hooks_;

  // State of the running step.
  StepTree tree_;
  int64_t filled_ = 0;    // that tree_ was made for
  size_t pass_ = 0;       // passes that have ended
  size_t also_pass_ = 0;  // passes whose also_ have been taken
  LeafAdder adder_, also_adder_;
  std::vector<at::Tensor> gradients_;  // permanent views of flat_ if there are buckets
  std::vector<bool> taken_;            // by parameter: its gradient is in the bucket
  bool last_round_ = false;
  std::string note_;
  std::shared_ptr<collectives::Notes> notes_;
  size_t started_ = 0;                                 // number of started buckets, always the first ones
  std::vector<size_t> missing_;                        // gradients that each bucket still waits for
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;  // by bucket
  std::vector<c10::intrusive_ptr<c10d::Work>> also_works_;  // in the order of also_; empty until started
};

}  // namespace mtrun::trainers

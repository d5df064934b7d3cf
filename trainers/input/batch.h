// From sample ids to what a network takes: uint8 images of a packed data set, gathered, placed, augmented and
// normalised. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "datasets/packed.h"
#include "datasets/sample_sum.h"
#include "trainers/input/placement.h"

namespace mtrun::trainers {

struct ImageBytes;

struct Batch {
  at::Tensor images;                  // [n, 3, S, S], (x/255 - 0.5) / 0.5
  at::Tensor labels;                  // int64 [n]
  datasets::SampleSum gathered = {};  // the samples that it was made of
};

/// What a batch is made from.
struct BatchInputs {
  std::vector<at::Tensor> tensors;    // on the device
  datasets::SampleSum gathered = {};  // added up where each sample was taken
};

inline Batch WithGathered(Batch batch, const datasets::SampleSum& gathered) {
  batch.gathered = gathered;
  return batch;
}

struct BatchOptions {
  int image_size = 32;                // S
  at::ScalarType dtype = at::kFloat;  // kFloat or kDouble
  at::Device device = at::Device(at::kCPU);
  at::MemoryFormat format = at::MemoryFormat::Contiguous;  // of the images
  bool resident = false;                                   // all images lie on the device
  bool grows = false;    // batches are as large as their images, which are square
  double part = 1;       // of the shorter side that encoded images are cut to, where they are
  int read_threads = 1;  // of a source that reads ahead
  int read_ahead = 4;    // micro-batches that it does ...
  int64_t read_ahead_bytes = int64_t{512} << 20;  // ... in at most so many
};

/// The images of a split, batch by batch. Smaller images are centred on black, larger ones resized (bilinear,
/// antialiased). What Make returns depends on its arguments and the data alone, to the last bit.
class ImageBatches {
 public:
  virtual ~ImageBatches() = default;
  /// `placements`: one per id, or empty for none.
  Batch Make(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const {
    const BatchInputs inputs = Inputs(ids, placements);
    return WithGathered(Compose(inputs.tensors), inputs.gathered);
  }
  /// Of images that have been read; not where all lie on the device.
  virtual BatchInputs InputsOf(const ImageBytes& source, absl::Span<const Placement> placements) const;
  /// Make in two halves. All that a batch depends on, on the device ...
  virtual BatchInputs Inputs(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const = 0;
  /// ... and the batch, by device operations whose kind and sizes depend on the inputs' sizes alone.
  virtual Batch Compose(const std::vector<at::Tensor>& inputs) const = 0;
};

/// On the CPU: from the mapped file in one pass over the bytes.
class BatchMaker : public ImageBatches {
 public:
  using Options = BatchOptions;

  /// `data` must outlive this.
  BatchMaker(const datasets::PackedSplit& data, const Options& options);
  BatchInputs Inputs(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const override;
  BatchInputs InputsOf(const ImageBytes& source, absl::Span<const Placement> placements) const override;
  Batch Compose(const std::vector<at::Tensor>& inputs) const override;

 private:
  const datasets::PackedSplit& data_;
  const Options options_;
};

/// As options.resident and the device say. `data` must outlive the result.
std::unique_ptr<ImageBatches> MakeImageBatches(const datasets::PackedSplit& data,
                                               const BatchOptions& options);

}  // namespace mtrun::trainers

// Makes a network's input from sample ids: uint8 images of a packed data set are gathered, placed, augmented
// and normalised. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "datasets/order/sample_sum.h"
#include "datasets/packed/packed.h"
#include "trainers/input/placement.h"

namespace mtrun::trainers {

struct ImageBytes;

struct Batch {
  at::Tensor images;                  // [n, 3, S, S], (x/255 - 0.5) / 0.5
  at::Tensor labels;                  // int64 [n]
  datasets::SampleSum gathered = {};  // the samples in it
};

/// Tensors from which a batch is made.
struct BatchInputs {
  std::vector<at::Tensor> tensors;    // on the device
  datasets::SampleSum gathered = {};  // summed where each sample was read
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
  bool resident = false;                                   // all images are kept on the device
  bool grows = false;                             // S is the side of the batch's images, which are square
  double part = 1;                                // if encoded images are cut: kept part of the shorter side
  int read_threads = 1;                           // of a source that reads ahead
  int read_ahead = 4;                             // micro-batches that it reads ahead ...
  int64_t read_ahead_bytes = int64_t{512} << 20;  // ... in at most this many bytes
};

/// Makes batches of a split's images. Smaller images are centred on black, and larger ones resized (bilinear,
/// antialiased). Make's result depends only on its arguments and the data, to the last bit.
class ImageBatches {
 public:
  virtual ~ImageBatches() = default;
  /// `placements`: one per id, or empty for none.
  Batch Make(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const {
    const BatchInputs inputs = Inputs(ids, placements);
    return WithGathered(Compose(inputs.tensors), inputs.gathered);
  }
  /// Returns the inputs for images that have been read. Not supported if all images are kept on the device.
  virtual BatchInputs InputsOf(const ImageBytes& source, absl::Span<const Placement> placements) const;
  /// First half of Make: puts everything that a batch depends on on the device.
  virtual BatchInputs Inputs(absl::Span<const int64_t> ids, absl::Span<const Placement> placements) const = 0;
  /// Second half of Make: device operations whose kinds and sizes depend only on the sizes of the inputs.
  virtual Batch Compose(const std::vector<at::Tensor>& inputs) const = 0;
};

/// Makes batches on the CPU, in one pass over the bytes of the mapped file.
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

/// Chooses a class by options.resident and the device. `data` must outlive the result.
std::unique_ptr<ImageBatches> MakeImageBatches(const datasets::PackedSplit& data,
                                               const BatchOptions& options);

}  // namespace mtrun::trainers

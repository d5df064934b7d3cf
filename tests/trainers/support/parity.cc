#include "tests/trainers/support/parity.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/normalization.h>

#include "base/splitmix.h"
#include "trainers/models/batch_norm.h"
#include "trainers/weights/safetensors.h"

namespace mtrun::trainers::testing {
namespace {

std::set<std::string> NormWeights(const torch::nn::Module& module) {
  std::set<std::string> names;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    const torch::nn::Module& m = *item.value();
    if (m.as<models::BatchNorm>() || m.as<torch::nn::BatchNorm2dImpl>() || m.as<torch::nn::LayerNormImpl>() ||
        m.as<torch::nn::GroupNormImpl>()) {
      names.insert(item.key() + ".weight");
    }
  }
  return names;
}

bool EndsWith(const std::string& text, const std::string& end) { return text.ends_with(end); }

}  // namespace

std::string ParityFolder() {
  if (const char* folder = std::getenv("MTRUN_PARITY_DIR"); folder != nullptr && *folder != 0) return folder;
  const char* source = std::getenv("MT_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/tests/testdata/parity";
}

nlohmann::json ParityJson(const std::string& name) {
  const std::string path = ParityFolder() + "/" + name;
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << "cannot read " << path << " (set MTRUN_PARITY_DIR or MT_SOURCE_DIR)";
  return file.good() ? nlohmann::json::parse(file) : nlohmann::json();
}

void FillByHash(const torch::nn::Module& module, uint64_t seed) {
  const std::set<std::string> norms = NormWeights(module);
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : StateDict(module)) {
    const NamedStream stream(seed, name);
    const double per_row =
        tensor.dim() >= 2 ? std::sqrt(static_cast<double>(tensor.numel() / tensor.size(0))) : 1;
    at::Tensor values = at::zeros(tensor.sizes(), at::kDouble);
    double* out = values.data_ptr<double>();
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const double s = stream.Signed(static_cast<uint64_t>(i));
      if (EndsWith(name, "num_batches_tracked") || EndsWith(name, "running_mean")) {
        out[i] = 0;
      } else if (EndsWith(name, "running_var")) {
        out[i] = 1;
      } else if (norms.count(name) != 0) {
        out[i] = 1 + 0.1 * s;
      } else {
        out[i] = tensor.dim() >= 2 ? s / per_row : 0.01 * s;
      }
    }
    at::Tensor(tensor).copy_(values.to(at::kFloat));
  }
}

Batch ParityImages(at::ScalarType dtype) {
  const auto tensors = LoadTensors(ParityFolder() + "/images.safetensors");
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  Batch batch;
  for (const auto& [name, tensor] : *tensors) {
    if (name == "images")
      batch.images = tensor.permute({0, 3, 1, 2}).to(dtype).div(255.0).sub(0.5).div(0.5).contiguous();
    if (name == "labels") batch.labels = tensor;
  }
  return batch;
}

Batch ParitySource::Make(int64_t step, int64_t micro_batch) {
  const int64_t n = SamplesInMicroBatch(step, micro_batch);
  const at::Tensor rows = (at::arange(n, at::kLong) + (step * batch_ + micro_batch * micro_)).remainder(64);
  datasets::SampleSum gathered;
  for (int64_t i = 0; i < n; ++i) gathered.Add(rows[i].item<int64_t>());
  return {images_.images.index_select(0, rows), images_.labels.index_select(0, rows), gathered};
}

}  // namespace mtrun::trainers::testing

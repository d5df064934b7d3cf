#include "trainers/models/conv_relu_pool.h"

#include <algorithm>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include "trainers/models/conv_kernels.h"

namespace mtrun::models {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// With more channels, PyTorch's blocked convolutions are faster.
constexpr int64_t kMaxChannels = 16;

ConvShape ShapeOf(const at::Tensor& input, const at::Tensor& weight) {
  return {.channels = static_cast<int>(input.size(1)),
          .height = static_cast<int>(input.size(2)),
          .width = static_cast<int>(input.size(3)),
          .filters = static_cast<int>(weight.size(0))};
}

/// Images of a batch. The last one is copied, because the kernels may read beyond its end.
template <typename Real>
class Images {
 public:
  Images(const at::Tensor& batch, const ConvShape& shape)
      : data_(batch.const_data_ptr<Real>()),
        count_(batch.size(0)),
        numel_(shape.input_numel()),
        last_(count_ == 0 ? 0 : numel_ + kConvSlack, Real(0)) {
    if (count_ > 0) std::copy_n(data_ + (count_ - 1) * numel_, numel_, last_.begin());
  }
  const Real* operator[](int64_t i) const { return i + 1 < count_ ? data_ + i * numel_ : last_.data(); }

 private:
  const Real* const data_;
  const int64_t count_, numel_;
  std::vector<Real> last_;
};

template <typename Real>
void Forward(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, at::Tensor& output,
             at::Tensor& winner) {
  const ConvShape shape = ShapeOf(input, weight);
  std::vector<Real> packed(shape.weight_numel());
  PackWeight(shape, weight.const_data_ptr<Real>(), packed.data());
  const Images<Real> images(input, shape);
  for (int64_t i = 0; i < input.size(0); ++i) {
    ConvReluPoolForward(shape, images[i], packed.data(), bias.const_data_ptr<Real>(),
                        output.mutable_data_ptr<Real>() + i * shape.output_numel(),
                        winner.mutable_data_ptr<uint8_t>() + i * shape.output_numel());
  }
}

struct Gradients {
  at::Tensor input, weight, bias;  // input is undefined if it is not needed
};

template <typename Real>
void Backward(const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
              const at::Tensor& winner, Gradients& out) {
  const ConvShape shape = ShapeOf(input, weight);
  std::vector<Real> packed(out.input.defined() ? shape.weight_numel() : 0);
  if (out.input.defined()) PackWeightTransposed(shape, weight.const_data_ptr<Real>(), packed.data());
  std::vector<Real> scratch(ConvScratchNumel(shape));
  const Images<Real> images(input, shape);
  for (int64_t i = 0; i < input.size(0); ++i) {
    SpreadGradient(shape, grad_output.const_data_ptr<Real>() + i * shape.output_numel(),
                   winner.const_data_ptr<uint8_t>() + i * shape.output_numel(), scratch.data(),
                   out.bias.mutable_data_ptr<Real>());
    AddWeightGradient(shape, images[i], scratch.data(), out.weight.mutable_data_ptr<Real>());
    if (!out.input.defined()) continue;
    InputGradient(shape, scratch.data(), packed.data(),
                  out.input.mutable_data_ptr<Real>() + i * shape.input_numel());
  }
}

class ConvReluPoolFunction : public torch::autograd::Function<ConvReluPoolFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const ConvShape shape = ShapeOf(input, weight);
    const std::vector<int64_t> sizes = {input.size(0), shape.filters, shape.pooled_height(),
                                        shape.pooled_width()};
    at::Tensor output = at::empty(sizes, input.options().requires_grad(false));
    at::Tensor winner = at::empty(sizes, at::kByte);
    if (input.scalar_type() == at::kFloat) {
      Forward<float>(input, weight, bias, output, winner);
    } else {
      Forward<double>(input, weight, bias, output, winner);
    }
    context->save_for_backward({input, weight, winner});
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grad_outputs) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1], &winner = saved[2];
    const at::Tensor grad_output = grad_outputs[0].contiguous();
    Gradients out{.input = context->needs_input_grad(0) ? at::empty_like(input) : at::Tensor(),
                  .weight = at::zeros_like(weight),
                  .bias = at::zeros({weight.size(0)}, weight.options())};
    if (input.scalar_type() == at::kFloat) {
      Backward<float>(grad_output, input, weight, winner, out);
    } else {
      Backward<double>(grad_output, input, weight, winner, out);
    }
    return {out.input, out.weight, out.bias};
  }
};

bool KernelsFit(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const at::ScalarType type = input.scalar_type();
  const bool plain = input.is_cpu() && (type == at::kFloat || type == at::kDouble) &&
                     weight.scalar_type() == type && bias.scalar_type() == type && input.is_contiguous() &&
                     weight.is_contiguous();
  const bool sizes = input.dim() == 4 && weight.size(2) == 3 && weight.size(3) == 3 &&
                     weight.size(1) == input.size(1) && weight.size(0) % 4 == 0 &&
                     weight.size(0) <= kMaxChannels && input.size(1) <= kMaxChannels && input.size(2) >= 4 &&
                     input.size(3) >= 4;
  const bool input_gradient = input.requires_grad() && input.size(1) % 4 != 0;
  return plain && sizes && !input_gradient && ConvKernelsRunHere();
}

}  // namespace

at::Tensor ConvReluPool(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  if (KernelsFit(input, weight, bias)) return ConvReluPoolFunction::apply(input, weight, bias);
  return at::max_pool2d(at::relu(at::conv2d(input, weight, bias)), 2);
}

}  // namespace mtrun::models

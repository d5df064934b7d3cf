// Clips gradients without waiting for the device.
#pragma once

#include <vector>

#include <torch/types.h>

namespace mtrun::trainers {

/// Scales `gradients` in place by min(1, max_norm / (norm + 1e-6)), torch.nn.utils.clip_grad_norm_'s rule,
/// where norm is the L2 norm of all of them together. Returns the norm before clipping, 0-dimensional on the
/// device. Parts of flat buckets give the same result as single gradients.
at::Tensor ClipGradients(const std::vector<at::Tensor>& gradients, double max_norm);

}  // namespace mtrun::trainers

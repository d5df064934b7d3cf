#include "trainers/random/draw.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <c10/util/accumulate.h>
#include <torch/types.h>

#include "base/status_macros.h"
#include "trainers/random/device_draw.h"

namespace mtrun::trainers {
namespace {

constexpr int64_t kGrain = 1 << 14;  // numbers worth a thread
constexpr int64_t kGroup = 32;       // numbers that one thread draws together: several blocks

/// Returns the stream's name from a CPU tensor.
RandomStreamId IdOf(const at::Tensor& stream) {
  const int64_t* words = stream.const_data_ptr<int64_t>();
  return {words[0], words[1], words[2]};
}

at::Tensor Drawn(at::IntArrayRef shape, const at::Tensor& stream, DrawPlan plan) {
  MT_CHECK(stream.defined() && stream.numel() == 3) << "a stream's name has three words";
  plan.count = c10::multiply_integers(shape);
  at::Tensor out = at::empty(shape, stream.options().dtype(at::kFloat));
  if (plan.count == 0) return out;
  MT_CHECK((plan.first + static_cast<uint64_t>(plan.count)) >> 34 == 0) << "a stream has 2^34 numbers";
  if (!stream.is_cpu()) {
    DrawOnDevice(stream, plan, out);
    return out;
  }
  const RandomStreamId id = IdOf(stream);
  // If the whole begins with a block of the stream, so do all parts.
  const int64_t groups = (plan.count + kGroup - 1) / kGroup;
  at::parallel_for(0, groups, kGrain / kGroup, [&](int64_t begin, int64_t end) {
    DrawPlan part = plan;
    part.first += static_cast<uint64_t>(begin * kGroup);
    part.count = std::min(plan.count, end * kGroup) - begin * kGroup;
    DrawNumbers(id, part, out.mutable_data_ptr<float>() + begin * kGroup);
  });
  return out;
}

}  // namespace

at::Tensor OnDevice(const RandomStream& stream, at::Device device) {
  const RandomStreamId& id = stream.id();
  const at::Tensor name = at::tensor({id.key, id.step, id.micro_batch}, at::TensorOptions(at::kLong));
  // CUDA copies so few bytes at once: `name` may be freed, and the caller does not wait for the device.
  return name.to(device, at::kLong, /*non_blocking=*/true);
}

at::Tensor DrawUniform(at::IntArrayRef shape, const at::Tensor& stream, int64_t first) {
  return Drawn(shape, stream, {.draw = Draw::kUniform, .first = static_cast<uint64_t>(first)});
}

at::Tensor DrawNormal(at::IntArrayRef shape, const at::Tensor& stream, int64_t first) {
  MT_CHECK(first % 2 == 0) << "two normal numbers are drawn together";
  return Drawn(shape, stream, {.draw = Draw::kNormal, .first = static_cast<uint64_t>(first)});
}

at::Tensor DrawBelow(at::IntArrayRef shape, int64_t below, const at::Tensor& stream, int64_t first) {
  MT_CHECK(below > 0 && below <= 1 << 20) << below;
  return DrawUniform(shape, stream, first).mul_(static_cast<double>(below)).floor_().to(at::kLong);
}

at::Tensor DrawKept(at::IntArrayRef shape, double rate, const at::Tensor& stream, int64_t first) {
  MT_CHECK(rate > 0 && rate < 1) << "drop probability " << rate;
  return Drawn(shape, stream,
               {.draw = Draw::kKept,
                .rate = static_cast<float>(rate),
                .value = static_cast<float>(1 / (1 - rate)),
                .first = static_cast<uint64_t>(first)});
}

}  // namespace mtrun::trainers

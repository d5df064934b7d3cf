#include "trainers/collectives/reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/status_macros.h"

// Lets the compiler vectorise a loop. If an output is exactly one of the inputs, its own alias checks would
// take the slow scalar loop, although element i depends only on elements i.
#define MT_VECTOR_LOOP _Pragma("GCC ivdep")

namespace mtrun::collectives {
namespace {

constexpr size_t kTile = 2048;  // elements; a tile's accumulator stays in the first-level cache
constexpr size_t kCacheLine = 64;

struct BFloat16 {
  uint16_t bits;
};

template <typename T>
struct Accumulator {
  using Type = T;
};
template <>
struct Accumulator<BFloat16> {
  using Type = float;
};
template <>
struct Accumulator<int64_t> {
  using Type = uint64_t;  // signed overflow is undefined, two's complement sums are the same
};

template <typename Acc, typename T>
inline Acc Load(T value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
  } else {
    return static_cast<Acc>(value);
  }
}

template <typename T, typename Acc>
inline T Store(Acc value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40;  // rounding could carry a NaN over to infinity
    return BFloat16{static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded)};
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
struct Sum {
  template <typename Acc>
  static Acc Apply(Acc a, Acc b) {
    return static_cast<Acc>(a + b);
  }
};

// Comparisons of int64 must be signed although its sums are accumulated unsigned.
template <typename T, bool kMaximum>
struct Extreme {
  template <typename Acc>
  static Acc Apply(Acc a, Acc b) {
    using Compared = std::conditional_t<std::is_same_v<T, int64_t>, int64_t, Acc>;
    const Compared x = static_cast<Compared>(a), y = static_cast<Compared>(b);
    const bool take = kMaximum ? y > x : y < x;
    return (take || y != y) ? b : a;
  }
};

// NaN != NaN picks the right-hand NaN; a NaN on the left stays because every comparison with it is false.
template <typename T>
using Max = Extreme<T, true>;
template <typename T>
using Min = Extreme<T, false>;

template <typename T, typename Op>
void ReduceTwo(const T* a, const T* b, T* output, size_t count) {
  using Acc = typename Accumulator<T>::Type;
  MT_VECTOR_LOOP
  for (size_t i = 0; i < count; ++i) output[i] = Store<T>(Op::Apply(Load<Acc>(a[i]), Load<Acc>(b[i])));
}

template <typename T, typename Op>
void ReduceTile(const std::vector<const void*>& inputs, size_t offset, T* output, size_t count,
                bool average) {
  using Acc = typename Accumulator<T>::Type;
  alignas(kCacheLine) Acc sum[kTile];
  const T* first = static_cast<const T*>(inputs[0]) + offset;
  MT_VECTOR_LOOP
  for (size_t i = 0; i < count; ++i) sum[i] = Load<Acc>(first[i]);
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    const T* next = static_cast<const T*>(inputs[rank]) + offset;
    MT_VECTOR_LOOP
    for (size_t i = 0; i < count; ++i) sum[i] = Op::Apply(sum[i], Load<Acc>(next[i]));
  }
  const Acc divisor = average ? static_cast<Acc>(inputs.size()) : Acc{1};
  if (average) {
    MT_VECTOR_LOOP
    for (size_t i = 0; i < count; ++i) sum[i] = sum[i] / divisor;
  }
  MT_VECTOR_LOOP
  for (size_t i = 0; i < count; ++i) output[i] = Store<T>(sum[i]);
}

template <typename T, typename Op>
void ReduceAll(const std::vector<const void*>& inputs, void* output, size_t count, bool average) {
  T* out = static_cast<T*>(output);
  if (inputs.size() == 2 && !average) {
    ReduceTwo<T, Op>(static_cast<const T*>(inputs[0]), static_cast<const T*>(inputs[1]), out, count);
    return;
  }
  for (size_t offset = 0; offset < count; offset += kTile) {
    ReduceTile<T, Op>(inputs, offset, out + offset, std::min(kTile, count - offset), average);
  }
}

template <typename T>
void ReduceTyped(ReduceOp op, const std::vector<const void*>& inputs, void* output, size_t count) {
  switch (op) {
    case ReduceOp::kSum:
      return ReduceAll<T, Sum<T>>(inputs, output, count, false);
    case ReduceOp::kAverage:
      return ReduceAll<T, Sum<T>>(inputs, output, count, true);
    case ReduceOp::kMax:
      return ReduceAll<T, Max<T>>(inputs, output, count, false);
    case ReduceOp::kMin:
      return ReduceAll<T, Min<T>>(inputs, output, count, false);
  }
}

/// Adds a tile at a time, so that the sums on the stack stay in the first-level cache.
template <typename T, typename Op>
void ReduceTreeAll(const TreePlan& plan, const std::vector<const void*>& inputs, T* output, size_t count) {
  using Acc = typename Accumulator<T>::Type;
  constexpr size_t kTreeTile = 1024;
  const auto input = [&inputs](int number) {
    return static_cast<const T*>(inputs[static_cast<size_t>(number)]);
  };
  if (plan.additions.empty()) {
    if (input(0) != output && count > 0) std::memcpy(output, input(0), count * sizeof(T));
    return;
  }
  if (inputs.size() == 2) return ReduceTwo<T, Op>(input(0), input(1), output, count);
  std::vector<T> stack(static_cast<size_t>(plan.depth) * kTreeTile);
  for (size_t offset = 0; offset < count; offset += kTreeTile) {
    const size_t size = std::min(kTreeTile, count - offset);
    T* top = stack.data();  // where the next sum goes
    const auto take = [&](int from) {
      return from == TreePlan::kStack ? (top -= kTreeTile) : input(from) + offset;
    };
    for (const TreePlan::Addition& addition : plan.additions) {
      const T* const right = take(addition.right);
      const T* const left = take(addition.left);
      T* const to = &addition == &plan.additions.back() ? output + offset : top;
      MT_VECTOR_LOOP
      for (size_t i = 0; i < size; ++i) to[i] = Store<T>(Op::Apply(Load<Acc>(left[i]), Load<Acc>(right[i])));
      top += kTreeTile;
    }
  }
}

template <typename T>
void ReduceTreeTyped(ReduceOp op, const TreePlan& plan, const std::vector<const void*>& inputs, void* output,
                     size_t count) {
  T* const out = static_cast<T*>(output);
  if (op == ReduceOp::kMax) return ReduceTreeAll<T, Max<T>>(plan, inputs, out, count);
  if (op == ReduceOp::kMin) return ReduceTreeAll<T, Min<T>>(plan, inputs, out, count);
  if constexpr (!std::is_same_v<T, BFloat16>) ReduceTreeAll<T, Sum<T>>(plan, inputs, out, count);
}

template <typename T>
void DivideAll(T* data, size_t count, T divisor) {
  MT_VECTOR_LOOP
  for (size_t i = 0; i < count; ++i) data[i] = data[i] / divisor;
}

}  // namespace

bool RoundsOnce(DataType dtype, ReduceOp op) {
  return dtype == DataType::kBFloat16 && (op == ReduceOp::kSum || op == ReduceOp::kAverage);
}

void ReduceTree(DataType dtype, ReduceOp op, const TreePlan& plan, const std::vector<const void*>& inputs,
                void* output, size_t count) {
  MT_CHECK(static_cast<int>(inputs.size()) == plan.inputs())
      << inputs.size() << " inputs: " << plan.Describe();
  MT_CHECK(!RoundsOnce(dtype, op)) << "a sum of bfloat16 is rounded once";
  switch (dtype) {
    case DataType::kFloat32:
      return ReduceTreeTyped<float>(op, plan, inputs, output, count);
    case DataType::kFloat64:
      return ReduceTreeTyped<double>(op, plan, inputs, output, count);
    case DataType::kInt64:
      return ReduceTreeTyped<int64_t>(op, plan, inputs, output, count);
    case DataType::kUint8:
      return ReduceTreeTyped<uint8_t>(op, plan, inputs, output, count);
    case DataType::kBFloat16:
      return ReduceTreeTyped<BFloat16>(op, plan, inputs, output, count);
  }
}

void Divide(DataType dtype, void* data, size_t count, int divisor) {
  if (dtype == DataType::kFloat32)
    return DivideAll(static_cast<float*>(data), count, static_cast<float>(divisor));
  MT_CHECK(dtype == DataType::kFloat64) << "an average needs floating-point numbers";
  DivideAll(static_cast<double*>(data), count, static_cast<double>(divisor));
}

void Reduce(DataType dtype, ReduceOp op, const std::vector<const void*>& inputs, void* output, size_t count) {
  MT_CHECK(!inputs.empty());
  switch (dtype) {
    case DataType::kFloat32:
      return ReduceTyped<float>(op, inputs, output, count);
    case DataType::kFloat64:
      return ReduceTyped<double>(op, inputs, output, count);
    case DataType::kInt64:
      return ReduceTyped<int64_t>(op, inputs, output, count);
    case DataType::kUint8:
      return ReduceTyped<uint8_t>(op, inputs, output, count);
    case DataType::kBFloat16:
      return ReduceTyped<BFloat16>(op, inputs, output, count);
  }
}

Chunk ChunkOf(size_t count, size_t element_size, int rank, int world) {
  const size_t line = std::max<size_t>(1, kCacheLine / element_size);
  const size_t even = (count + static_cast<size_t>(world) - 1) / static_cast<size_t>(world);
  const size_t piece = (even + line - 1) / line * line;
  return {std::min(count, piece * static_cast<size_t>(rank)),
          std::min(count, piece * (static_cast<size_t>(rank) + 1))};
}

}  // namespace mtrun::collectives

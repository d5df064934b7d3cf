// The words of the collectives: element types, reductions and the description of one call. Plain values, no
// thread rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mtrun::collectives {

enum class DataType : uint8_t { kFloat32, kFloat64, kInt64, kUint8, kBFloat16 };

/// kAverage is the sum divided by the world size; floating-point types only.
enum class ReduceOp : uint8_t { kSum, kAverage, kMax, kMin };

enum class Operation : uint8_t { kAllReduce, kBroadcast, kAllGather, kBarrier };

/// Bytes of one element.
size_t SizeOf(DataType dtype);

/// One collective call. Travels between ranks as bytes, hence no pointers and no padding; all ranks of a
/// group must make equal calls in the same order.
struct Call {
  Operation operation = Operation::kBarrier;
  DataType dtype = DataType::kUint8;
  ReduceOp reduce = ReduceOp::kSum;
  uint8_t note = 0;    // kAllReduce: bytes that each rank says beside it
  int32_t root = 0;    // kBroadcast
  uint64_t count = 0;  // elements of one rank's input
  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) == 16);

/// What the ranks tell each other beside an all-reduce, in its own messages.
struct Notes {
  std::string own;               // as long on all ranks, at most kMostNoteBytes
  std::vector<std::string> all;  // by rank, once the all-reduce is done
};
inline constexpr size_t kMostNoteBytes = 255;

/// "all-reduce(sum, float32, 1000 elements)": for messages.
std::string Describe(const Call& call);

}  // namespace mtrun::collectives

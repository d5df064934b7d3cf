// The types of the collectives: element types, reductions and the description of one call. Plain values.
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

/// Returns the bytes of one element.
size_t SizeOf(DataType dtype);

/// One collective call. Ranks send it as bytes, hence no pointers and no padding. All ranks of a group must
/// make equal calls in the same order.
struct Call {
  Operation operation = Operation::kBarrier;
  DataType dtype = DataType::kUint8;
  ReduceOp reduce = ReduceOp::kSum;
  uint8_t note = 0;    // kAllReduce: bytes of each rank's note
  int32_t root = 0;    // kBroadcast; kAllReduce: digest of the sum's TreePlan, 0 for none
  uint64_t count = 0;  // elements of one rank's input
  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) == 16);

/// The notes that ranks exchange in the messages of an all-reduce.
struct Notes {
  std::string own;               // the same length on all ranks, at most kMaxNoteBytes
  std::vector<std::string> all;  // by rank, after the all-reduce
};
inline constexpr size_t kMaxNoteBytes = 255;

/// Returns text for messages: "all-reduce(sum, float32, 1000 elements)".
std::string Describe(const Call& call);

}  // namespace mtrun::collectives

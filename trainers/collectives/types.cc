#include "trainers/collectives/types.h"

#include "absl/strings/str_cat.h"

namespace mtrun::collectives {
namespace {

const char* Name(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint8:
      return "uint8";
    case DataType::kBFloat16:
      return "bfloat16";
  }
  return "unknown type";
}

const char* Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
  }
  return "unknown reduction";
}

}  // namespace

size_t SizeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return 4;
    case DataType::kFloat64:
      return 8;
    case DataType::kInt64:
      return 8;
    case DataType::kUint8:
      return 1;
    case DataType::kBFloat16:
      return 2;
  }
  return 1;
}

std::string Describe(const Call& call) {
  const std::string what = absl::StrCat(Name(call.dtype), ", ", call.count, " elements");
  switch (call.operation) {
    case Operation::kAllReduce:
      return absl::StrCat("all-reduce(", Name(call.reduce), ", ", what,
                          call.root != 0 ? absl::StrCat(", in the order ", absl::Hex(call.root)) : "",
                          call.note > 0 ? absl::StrCat(", a note of ", call.note, " bytes") : "", ")");
    case Operation::kBroadcast:
      return absl::StrCat("broadcast(from rank ", call.root, ", ", what, ")");
    case Operation::kAllGather:
      return absl::StrCat("all-gather(", what, ")");
    case Operation::kBarrier:
      return "barrier()";
  }
  return "unknown call";
}

}  // namespace mtrun::collectives

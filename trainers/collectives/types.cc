#include "trainers/collectives/types.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace mtrun::collectives {
namespace {

struct TypeRow {
  const char* name;
  size_t bytes;
};
constexpr TypeRow kTypes[] = {{"float32", 4}, {"float64", 8}, {"int64", 8}, {"uint8", 1}, {"bfloat16", 2}};
static_assert(std::size(kTypes) == static_cast<size_t>(DataType::kBFloat16) + 1);
constexpr const char* kReductions[] = {"sum", "average", "max", "min"};
static_assert(std::size(kReductions) == static_cast<size_t>(ReduceOp::kMin) + 1);

/// Returns the row of an enumerator, or `unknown`, because the bytes of a peer's call can be any.
template <typename Row, size_t n, typename Enum>
Row RowOf(const Row (&rows)[n], Enum value, Row unknown) {
  const auto index = static_cast<size_t>(value);
  return index < n ? rows[index] : unknown;
}

TypeRow RowOf(DataType dtype) { return RowOf(kTypes, dtype, TypeRow{"unknown type", 1}); }

}  // namespace

size_t SizeOf(DataType dtype) { return RowOf(dtype).bytes; }

std::string Describe(const Call& call) {
  const std::string what = absl::StrCat(RowOf(call.dtype).name, ", ", call.count, " elements");
  switch (call.operation) {
    case Operation::kAllReduce:
      return absl::StrCat("all-reduce(", RowOf(kReductions, call.reduce, "unknown reduction"), ", ", what,
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

// Early returns for absl::Status, and a check for invariants that is enabled in every build.
#pragma once

#include <cstdlib>
#include <iostream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace mtrun {

/// Prefixes an error with context of the calling layer: "join 10.0.0.2:29400: connection refused". OK stays
/// OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view noun) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(noun, ": ", status.message()));
  status.ForEachPayload([&annotated](absl::string_view type, const absl::Cord& payload) {
    annotated.SetPayload(type, payload);
  });
  return annotated;
}
template <typename T>
absl::StatusOr<T> Annotate(absl::StatusOr<T> result, absl::string_view noun) {
  return result.ok() ? std::move(result) : Annotate(result.status(), noun);
}

namespace internal {

inline absl::Status AsStatus(absl::Status status) { return status; }
template <typename T>
absl::Status AsStatus(absl::StatusOr<T>&& result) {
  return std::move(result).status();
}

/// Collects `<< state` after a failed MT_CHECK, prints it and ends the program.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    text_ << file << ":" << line << ": broken invariant: " << condition << " ";
  }
  [[noreturn]] ~CheckFailure() {
    std::cerr << text_.str() << std::endl;
    std::abort();
  }
  template <typename T>
  CheckFailure& operator<<(const T& value) {
    text_ << value;
    return *this;
  }

 private:
  std::ostringstream text_;
};

}  // namespace internal
}  // namespace mtrun

#define MT_CONCAT_INNER(a, b) a##b
#define MT_CONCAT(a, b) MT_CONCAT_INNER(a, b)

/// Returns the status of `expr` from the enclosing function if it is not OK.
#define MT_RETURN_IF_ERROR(expr)                                                                       \
  do {                                                                                                 \
    if (absl::Status mt_status = ::mtrun::internal::AsStatus(expr); !mt_status.ok()) return mt_status; \
  } while (false)

/// `MT_ASSIGN_OR_RETURN(auto x, MakeX());` assigns the value or returns the error.
#define MT_ASSIGN_OR_RETURN(lhs, expr) MT_ASSIGN_OR_RETURN_IMPL(MT_CONCAT(mt_result_, __LINE__), lhs, expr)
#define MT_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                             \
  if (!result.ok()) return result.status();         \
  lhs = *std::move(result)

/// Aborts the program with file, line, condition and everything streamed after it, if `condition` is false:
/// `MT_CHECK(rank < world) << Describe();`
#define MT_CHECK(condition) \
  if (condition)            \
    [[likely]];             \
  else                      \
    ::mtrun::internal::CheckFailure(__FILE__, __LINE__, #condition)

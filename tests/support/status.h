// Matches an error by its code and its words, so that a test does not pass because of another error.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace mtrun::support {

inline const absl::Status& ToStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& ToStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

/// Matches a Status or StatusOr with this code; `words` is a matcher of its message, or the whole message.
MATCHER_P2(StatusIs, code, words, "has the code " + testing::PrintToString(code) + " and these words") {
  const absl::Status& status = ToStatus(arg);
  *result_listener << "which is " << status << " ";
  return status.code() == code &&
         testing::ExplainMatchResult(words, std::string(status.message()), result_listener);
}

}  // namespace mtrun::support

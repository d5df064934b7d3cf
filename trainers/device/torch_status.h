// The door between LibTorch, which throws, and our functions, which return absl::Status.
#pragma once

#include <exception>
#include <string_view>

#include <c10/util/Exception.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mtrun::trainers {

/// Runs `body`; an exception becomes kInternal "<noun>: <message>" (without LibTorch's C++ backtrace), or
/// kUnavailable when it says that the process group is broken.
template <typename Body>
absl::Status TorchStatus(absl::string_view noun, Body&& body) {
  try {
    body();
    return absl::OkStatus();
  } catch (const c10::DistBackendError& error) {
    return absl::UnavailableError(absl::StrCat(noun, ": ", error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(noun, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(noun, ": ", error.what()));
  }
}

}  // namespace mtrun::trainers

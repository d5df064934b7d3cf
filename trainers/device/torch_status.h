// Converts LibTorch's exceptions into absl::Status.
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace mtrun::trainers {

/// A status that passes through functions that throw, up to the next TorchStatus. REQUIRES: it is an error.
class StatusError : public c10::Error {
 public:
  explicit StatusError(absl::Status status)
      : c10::Error(std::string(status.message())), status_(std::move(status)) {}
  const absl::Status& status() const { return status_; }

 private:
  const absl::Status status_;
};

/// Runs `body` and returns its status, or its value with a status. An exception becomes kInternal
/// "<noun>: <message>" (without LibTorch's C++ backtrace), or kUnavailable if the process group is broken. The
/// status of a StatusError keeps its code. kCancelled keeps its message as well, because nothing has failed:
/// the message says what asked for the end.
template <typename Body>
requires(!std::is_void_v<std::invoke_result_t<Body>>) std::invoke_result_t<Body> TorchStatus(
    absl::string_view noun, Body&& body) {
  try {
    return body();
  } catch (const StatusError& error) {
    return absl::IsCancelled(error.status()) ? error.status() : Annotate(error.status(), noun);
  } catch (const c10::DistBackendError& error) {
    return Annotate(absl::UnavailableError(error.what_without_backtrace()), noun);
  } catch (const c10::Error& error) {
    return Annotate(absl::InternalError(error.what_without_backtrace()), noun);
  } catch (const std::exception& error) {
    return Annotate(absl::InternalError(error.what()), noun);
  }
}
/// Does the same with a body that returns nothing.
template <typename Body>
requires(std::is_void_v<std::invoke_result_t<Body>>) absl::Status
    TorchStatus(absl::string_view noun, Body&& body) {
  return TorchStatus(noun, [&body] {
    body();
    return absl::OkStatus();
  });
}

}  // namespace mtrun::trainers

// Owners for OpenSSL's objects (Owned<X509, X509_free>), and its last error as text. Keeps OpenSSL's state
// until the process is gone (openssl_owned.cc).
#pragma once

#include <openssl/err.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace mtrun {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};
template <typename T, auto Free>
using Owned = std::unique_ptr<T, Freer<Free>>;

/// Returns "<what>: error:0A00..." for this thread's oldest pending failure and takes it off the queue.
std::string SslReason(absl::string_view what);

}  // namespace mtrun

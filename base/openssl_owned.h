// OpenSSL's objects with their owner: Owned<X509, X509_free>; and what it says of its last failure. A program
// that links this keeps OpenSSL's state until it is gone (openssl_owned.cc).
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

/// "<what>: error:0A00...": the oldest failure of this thread that nobody has taken.
std::string SslReason(absl::string_view what);

}  // namespace mtrun

// OpenSSL's objects with their owner: Owned<X509, X509_free>; and what it says of its last failure.
#pragma once

#include <openssl/err.h>

#include <array>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

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
inline std::string SslReason(absl::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  return absl::StrCat(what, ": ", text.data());
}

}  // namespace mtrun

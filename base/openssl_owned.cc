#include "base/openssl_owned.h"

#include <openssl/crypto.h>

#include <array>

#include "absl/strings/str_cat.h"

namespace mtrun {
namespace {

/// Disables OpenSSL's atexit cleanup: gRPC's threads may still be closing their connections with OpenSSL
/// then. The first use decides, so this runs before main in every program that links this file.
[[maybe_unused]] const int kept_until_the_end = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);

}  // namespace

std::string SslReason(absl::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  return absl::StrCat(what, ": ", text.data());
}

}  // namespace mtrun

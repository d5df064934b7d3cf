// SHA-256 (FIPS 180-4) through OpenSSL, in lower-case hexadecimal.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct evp_md_ctx_st;

namespace mtrun {

/// Hashes bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  void Update(std::string_view bytes);
  /// Returns 64 hexadecimal digits. Call once.
  std::string Hex();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

std::string Sha256Hex(std::string_view bytes);
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);
/// Returns whether the text is 64 lower-case hexadecimal digits.
bool IsSha256(std::string_view text);

/// Returns the HMAC-SHA256 (RFC 2104), 32 raw bytes.
std::string HmacSha256(std::string_view key, std::string_view message);
/// Compares two strings in time independent of where they differ.
bool ConstantTimeEqual(std::string_view a, std::string_view b);

}  // namespace mtrun

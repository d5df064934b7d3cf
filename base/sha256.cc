#include "base/sha256.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  MT_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::Update(std::string_view bytes) {
  MT_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  std::array<unsigned char, 32> raw{};
  MT_CHECK(EVP_DigestFinal_ex(context_.get(), raw.data(), nullptr) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(raw.data()), raw.size()));
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.Hex();
}

absl::StatusOr<std::string> Sha256OfFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  Sha256 digest;
  std::string piece(1 << 20, '\0');
  while (true) {
    const ssize_t n = read(fd.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (n == 0) return digest.Hex();
    digest.Update(std::string_view(piece.data(), static_cast<size_t>(n)));
  }
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string HmacSha256(std::string_view key, std::string_view message) {
  std::array<unsigned char, 32> raw{};
  unsigned int size = 0;
  MT_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(message.data()), message.size(), raw.data(),
                &size) != nullptr);
  return std::string(reinterpret_cast<const char*>(raw.data()), size);
}

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace mtrun

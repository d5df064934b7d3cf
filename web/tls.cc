#include "web/tls.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <array>
#include <memory>

#include "absl/strings/str_format.h"

namespace mtrun::web {

absl::StatusOr<std::string> Fingerprint(const std::string& certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> x509(
      PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &X509_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (x509 == nullptr || X509_digest(x509.get(), EVP_sha256(), digest.data(), &size) != 1)
    return absl::InvalidArgumentError("the certificate is no X.509 certificate in PEM");
  std::string pairs;
  for (unsigned i = 0; i < size; ++i) absl::StrAppendFormat(&pairs, "%s%02X", i == 0 ? "" : ":", digest[i]);
  return pairs;
}

}  // namespace mtrun::web

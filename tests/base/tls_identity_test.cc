#include "base/tls_identity.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace mtrun {
namespace {

using CertificatePtr = std::unique_ptr<X509, decltype(&X509_free)>;

CertificatePtr Parse(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free_all);
  return {PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free};
}

bool Verifies(const std::string& leaf, const std::string& root) {
  const CertificatePtr leaf_certificate = Parse(leaf), root_certificate = Parse(root);
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(), X509_STORE_free);
  X509_STORE_add_cert(store.get(), root_certificate.get());
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(X509_STORE_CTX_new(),
                                                                                X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), store.get(), leaf_certificate.get(), nullptr);
  return X509_verify_cert(context.get()) == 1;
}

TEST(DeriveIdentity, EmptyTokenIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(DeriveIdentity("").status()));
}

TEST(DeriveIdentity, OnlyEndsWithTheSameTokenTrustEachOther) {
  const auto a = DeriveIdentity(std::string(64, 'a')), again = DeriveIdentity(std::string(64, 'a'));
  const auto b = DeriveIdentity(std::string(64, 'b'));
  ASSERT_TRUE(a.ok() && again.ok() && b.ok()) << a.status();
  EXPECT_EQ(a->private_key, again->private_key);
  EXPECT_NE(a->private_key, b->private_key);
  EXPECT_TRUE(Verifies(again->certificate, a->ca_certificate));
  EXPECT_FALSE(Verifies(b->certificate, a->ca_certificate));
  EXPECT_EQ(X509_check_host(Parse(a->certificate).get(), kTlsName, 0, 0, nullptr), 1);
}

}  // namespace
}  // namespace mtrun

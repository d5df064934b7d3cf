#include "base/tls_identity.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <array>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/openssl_owned.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace mtrun {
namespace {

using Key = Owned<EVP_PKEY, EVP_PKEY_free>;
using Certificate = Owned<X509, X509_free>;

absl::Status SslError(absl::string_view what) { return absl::InternalError(SslReason(what)); }

absl::StatusOr<std::array<unsigned char, 48>> Hkdf(std::string_view token, std::string_view purpose) {
  const Owned<EVP_KDF, EVP_KDF_free> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const Owned<EVP_KDF_CTX, EVP_KDF_CTX_free> context(EVP_KDF_CTX_new(kdf.get()));
  std::string digest = "SHA256", secret(token), info(purpose), salt = "mtrun rendezvous 1";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  std::array<unsigned char, 48> out{};
  if (context == nullptr || EVP_KDF_derive(context.get(), out.data(), out.size(), parameters) != 1)
    return SslError("HKDF");
  return out;
}

/// Reduces 48 derived bytes to 1..n-1: a scalar without measurable bias (FIPS 186-5, A.2.1).
absl::StatusOr<Key> DeriveKey(std::string_view token, std::string_view purpose) {
  MT_ASSIGN_OR_RETURN(const auto bytes, Hkdf(token, purpose));
  const Owned<EC_GROUP, EC_GROUP_free> group(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  const Owned<BN_CTX, BN_CTX_free> context(BN_CTX_secure_new());
  const Owned<BIGNUM, BN_clear_free> order(BN_dup(EC_GROUP_get0_order(group.get())));
  const Owned<BIGNUM, BN_clear_free> scalar(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  if (BN_sub_word(order.get(), 1) != 1 ||
      BN_mod(scalar.get(), scalar.get(), order.get(), context.get()) != 1 ||
      BN_add_word(scalar.get(), 1) != 1) {
    return SslError("derive key");
  }
  const Owned<EC_POINT, EC_POINT_free> point(EC_POINT_new(group.get()));
  if (EC_POINT_mul(group.get(), point.get(), scalar.get(), nullptr, nullptr, context.get()) != 1)
    return SslError("derive key");
  std::array<unsigned char, 65> encoded{};
  if (EC_POINT_point2oct(group.get(), point.get(), POINT_CONVERSION_UNCOMPRESSED, encoded.data(),
                         encoded.size(), context.get()) != encoded.size()) {
    return SslError("derive key");
  }
  const Owned<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, scalar.get());
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, encoded.data(), encoded.size());
  const Owned<OSSL_PARAM, OSSL_PARAM_free> parameters(OSSL_PARAM_BLD_to_param(builder.get()));
  const Owned<EVP_PKEY_CTX, EVP_PKEY_CTX_free> maker(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  if (EVP_PKEY_fromdata_init(maker.get()) != 1 ||
      EVP_PKEY_fromdata(maker.get(), &key, EVP_PKEY_KEYPAIR, parameters.get()) != 1) {
    return SslError("make EC key");
  }
  return Key(key);
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION, X509_EXTENSION_free> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1)
    return SslError("certificate extension");
  return absl::OkStatus();
}

struct Extension {
  int nid;
  std::string value;
};

/// Makes a certificate for `key` with the subject `name`, signed by `issuer_key`. Its validity period is
/// meaningless, because no node's clock is trusted.
absl::StatusOr<Certificate> MakeCertificate(EVP_PKEY* key, const std::string& name, X509* issuer,
                                            EVP_PKEY* issuer_key, long serial,
                                            const std::vector<Extension>& extensions) {
  Certificate certificate(X509_new());
  X509* x = certificate.get();
  X509_set_version(x, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x), serial);
  if (ASN1_TIME_set_string(X509_getm_notBefore(x), "19700101000000Z") != 1 ||
      ASN1_TIME_set_string(X509_getm_notAfter(x), "99991231235959Z") != 1) {
    return SslError("certificate times");
  }
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509* const signer = issuer != nullptr ? issuer : x;
  X509_set_issuer_name(x, X509_get_subject_name(signer));
  X509_set_pubkey(x, key);
  for (const Extension& extension : extensions)
    MT_RETURN_IF_ERROR(AddExtension(x, signer, extension.nid, extension.value));
  if (X509_sign(x, issuer_key, EVP_sha256()) == 0) return SslError("sign certificate");
  return certificate;
}

template <typename Write>
absl::StatusOr<std::string> Pem(const Write& write) {
  const Owned<BIO, BIO_free_all> bio(BIO_new(BIO_s_mem()));
  if (write(bio.get()) != 1) return SslError("write PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<std::string> PemOf(X509* certificate) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

absl::StatusOr<std::string> PemOf(EVP_PKEY* key) {
  return Pem([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

}  // namespace

absl::StatusOr<TlsIdentity> DeriveIdentity(std::string_view token) {
  if (token.empty()) return absl::InvalidArgumentError("no token to derive keys from");
  MT_ASSIGN_OR_RETURN(const Key ca_key, DeriveKey(token, "certificate authority"));
  MT_ASSIGN_OR_RETURN(const Key leaf_key, DeriveKey(token, "leaf"));
  // The issuer's name depends on the token, so a wrong token fails with "unknown issuer", not with a bad
  // signature.
  MT_ASSIGN_OR_RETURN(const auto name, Hkdf(token, "name of the authority"));
  const std::string ca_name =
      absl::StrCat("mtrun ", absl::BytesToHexString(std::string(name.begin(), name.begin() + 16)));
  MT_ASSIGN_OR_RETURN(const Certificate ca,
                      MakeCertificate(ca_key.get(), ca_name, nullptr, ca_key.get(), 1,
                                      {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                       {NID_key_usage, "critical,keyCertSign"},
                                       {NID_subject_key_identifier, "hash"}}));
  MT_ASSIGN_OR_RETURN(const Certificate leaf,
                      MakeCertificate(leaf_key.get(), kTlsName, ca.get(), ca_key.get(), 2,
                                      {{NID_basic_constraints, "critical,CA:FALSE"},
                                       {NID_key_usage, "critical,digitalSignature"},
                                       {NID_ext_key_usage, "serverAuth,clientAuth"},
                                       {NID_subject_alt_name, absl::StrCat("DNS:", kTlsName)}}));
  TlsIdentity identity;
  MT_ASSIGN_OR_RETURN(identity.ca_certificate, PemOf(ca.get()));
  MT_ASSIGN_OR_RETURN(identity.certificate, PemOf(leaf.get()));
  MT_ASSIGN_OR_RETURN(identity.private_key, PemOf(leaf_key.get()));
  return identity;
}

absl::StatusOr<std::string> PublicKeyPin(const TlsIdentity& identity) {
  const Owned<BIO, BIO_free_all> bio(
      BIO_new_mem_buf(identity.certificate.data(), static_cast<int>(identity.certificate.size())));
  const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr) return SslError("read certificate");
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate.get()), &der);
  if (size <= 0) return SslError("encode public key");
  std::string pin = Sha256Hex({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
  OPENSSL_free(der);
  return pin;
}

}  // namespace mtrun

#include "trainers/collectives/frame_cipher.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"

namespace mtrun::collectives {
namespace {

constexpr size_t kNonceBytes = 12;
constexpr size_t kMaxAtOnce = size_t{1} << 30;  // OpenSSL counts in int

const unsigned char* Bytes(const void* data) { return static_cast<const unsigned char*>(data); }

}  // namespace

struct FrameCipher::Context {
  EVP_CIPHER_CTX* evp = EVP_CIPHER_CTX_new();
  Context() { MT_CHECK(evp != nullptr); }
  ~Context() { EVP_CIPHER_CTX_free(evp); }
  Context(const Context&) = delete;

  /// If `out` is null, the bytes are only authenticated.
  void Update(const unsigned char* in, size_t bytes, unsigned char* out) const {
    while (bytes > 0) {
      const size_t part = std::min(bytes, kMaxAtOnce);
      int done = 0;
      MT_CHECK(EVP_CipherUpdate(evp, out, &done, in, static_cast<int>(part)) == 1);
      in += part;
      if (out != nullptr) out += part;
      bytes -= part;
    }
  }
};

FrameCipher::FrameCipher(const std::string& key, Protection protection, Use use)
    : protection_(protection), use_(use), context_(std::make_unique<Context>()) {
  MT_CHECK(key.size() == kKeyBytes);
  MT_CHECK(EVP_CipherInit_ex(context_->evp, EVP_aes_256_gcm(), nullptr, Bytes(key.data()), nullptr,
                             use == Use::kSeal ? 1 : 0) == 1);
}

FrameCipher::~FrameCipher() = default;

void FrameCipher::Begin(const void* head, size_t bytes) {
  unsigned char nonce[kNonceBytes] = {};
  ++frames_;  // a key uses each nonce once, because it counts frames for its whole life
  std::memcpy(nonce, &frames_, sizeof frames_);
  MT_CHECK(EVP_CipherInit_ex(context_->evp, nullptr, nullptr, nullptr, nonce, -1) == 1);
  context_->Update(Bytes(head), bytes, nullptr);
}

void FrameCipher::Pass(const void* in, size_t bytes, void* out) {
  context_->Update(Bytes(in), bytes, encrypts() ? static_cast<unsigned char*>(out) : nullptr);
}

FrameCipher::Tag FrameCipher::Finish() {
  MT_CHECK(use_ == Use::kSeal);
  Tag tag;
  int none = 0;
  MT_CHECK(EVP_CipherFinal_ex(context_->evp, tag.data(), &none) == 1);
  MT_CHECK(EVP_CIPHER_CTX_ctrl(context_->evp, EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1);
  return tag;
}

bool FrameCipher::Check(const Tag& tag) {
  MT_CHECK(use_ == Use::kOpen);
  Tag copy = tag, rest;
  int none = 0;
  MT_CHECK(EVP_CIPHER_CTX_ctrl(context_->evp, EVP_CTRL_GCM_SET_TAG, kTagBytes, copy.data()) == 1);
  return EVP_CipherFinal_ex(context_->evp, rest.data(), &none) == 1;
}

}  // namespace mtrun::collectives

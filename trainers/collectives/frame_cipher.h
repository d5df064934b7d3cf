// Protects one direction of a data connection between two hosts: AES-256 in Galois/counter mode (NIST SP
// 800-38D), with the frame's number as the nonce. Every frame ends with a tag that only the two ranks can
// compute; the payload is sent in the clear or encrypted. Pure except for OpenSSL's state; not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace mtrun::collectives {

enum class Protection : uint8_t {
  kTag,      // detects altered and forged frames
  kEncrypt,  // encrypts the payload as well
};

class FrameCipher {
 public:
  static constexpr size_t kKeyBytes = 32, kTagBytes = 16;
  using Tag = std::array<unsigned char, kTagBytes>;
  enum class Use { kSeal, kOpen };

  /// `key`: kKeyBytes bytes, for this direction of this connection only.
  FrameCipher(const std::string& key, Protection protection, Use use);
  ~FrameCipher();
  FrameCipher(const FrameCipher&) = delete;

  bool encrypts() const { return protection_ == Protection::kEncrypt; }
  /// Begins the next frame. `head` is never encrypted.
  void Begin(const void* head, size_t bytes);
  /// Processes the next bytes of the payload. If it encrypts, the encrypted or decrypted bytes go to `out`,
  /// which may be `in`; otherwise `out` is not written.
  void Pass(const void* in, size_t bytes, void* out);
  /// Ends a sealed frame and returns its tag.
  Tag Finish();
  /// Ends an opened frame and returns true if `tag` is its tag. If not, the output of Pass must be discarded.
  bool Check(const Tag& tag);

 private:
  struct Context;
  const Protection protection_;
  const Use use_;
  const std::unique_ptr<Context> context_;
  uint64_t frames_ = 0;
};

}  // namespace mtrun::collectives

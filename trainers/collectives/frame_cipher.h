// What protects one direction of a data connection between two hosts: AES-256 in Galois/counter mode (NIST SP
// 800-38D), the number of the frame as its nonce. Every frame ends with a tag that only the two ranks can
// make; its payload travels as it is, or encrypted. Pure, but for OpenSSL's own state; not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace mtrun::collectives {

enum class Protection : uint8_t {
  kTag,      // altered or made up, a frame is noticed
  kEncrypt,  // nor can anybody read it
};

class FrameCipher {
 public:
  static constexpr size_t kKeyBytes = 32, kTagBytes = 16;
  using Tag = std::array<unsigned char, kTagBytes>;
  enum class Use { kSeal, kOpen };

  /// `key`: of this direction of this connection alone, kKeyBytes.
  FrameCipher(const std::string& key, Protection protection, Use use);
  ~FrameCipher();
  FrameCipher(const FrameCipher&) = delete;

  bool encrypts() const { return protection_ == Protection::kEncrypt; }
  /// The next frame begins. `head` is never encrypted.
  void Begin(const void* head, size_t bytes);
  /// The next bytes of its payload. Where it encrypts, what travels comes from, or goes to, `out`, which may
  /// be `in`; else `out` is left alone.
  void Pass(const void* in, size_t bytes, void* out);
  /// Sealing: the frame's tag.
  Tag Finish();
  /// Opening: whether this is the frame's tag; what Pass gave is worth nothing if not.
  bool Check(const Tag& tag);

 private:
  struct Context;
  const Protection protection_;
  const Use use_;
  const std::unique_ptr<Context> context_;
  uint64_t frames_ = 0;
};

}  // namespace mtrun::collectives

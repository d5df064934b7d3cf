#include "trainers/collectives/frame_cipher.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace mtrun::collectives {
namespace {

using Use = FrameCipher::Use;
const std::string kKey(FrameCipher::kKeyBytes, 'k');

struct Sealed {
  std::string travels;
  FrameCipher::Tag tag;
};

Sealed Seal(FrameCipher& cipher, const std::string& head, const std::string& payload, size_t piece = 7) {
  cipher.Begin(head.data(), head.size());
  std::string travels = payload;
  for (size_t at = 0; at < payload.size(); at += piece)
    cipher.Pass(payload.data() + at, std::min(piece, payload.size() - at), travels.data() + at);
  return {travels, cipher.Finish()};
}

bool Open(FrameCipher& cipher, const std::string& head, std::string* travels, const FrameCipher::Tag& tag) {
  cipher.Begin(head.data(), head.size());
  cipher.Pass(travels->data(), travels->size(), travels->data());
  return cipher.Check(tag);
}

class FrameCipherTest : public ::testing::TestWithParam<Protection> {};

TEST_P(FrameCipherTest, SealedFramesOpen) {
  FrameCipher seal(kKey, GetParam(), Use::kSeal), open(kKey, GetParam(), Use::kOpen);
  for (const std::string payload : {"", "gradients", "a payload that is longer than a block of the cipher"}) {
    Sealed frame = Seal(seal, "head", payload);
    if (!payload.empty()) {
      EXPECT_EQ(frame.travels == payload, GetParam() == Protection::kTag);
    }
    EXPECT_TRUE(Open(open, "head", &frame.travels, frame.tag));
    EXPECT_EQ(frame.travels, payload);
  }
}

TEST_P(FrameCipherTest, AlteredHeadPayloadTagKeyOrOrderDoesNotOpen) {
  const auto opens = [&](auto alter) {
    FrameCipher seal(kKey, GetParam(), Use::kSeal), open(kKey, GetParam(), Use::kOpen);
    std::string head = "head";
    Sealed frame = Seal(seal, head, "gradients");
    alter(head, frame);
    return Open(open, head, &frame.travels, frame.tag);
  };
  EXPECT_TRUE(opens([](std::string&, Sealed&) {}));
  EXPECT_FALSE(opens([](std::string& head, Sealed&) { head[0] ^= 1; }));
  EXPECT_FALSE(opens([](std::string&, Sealed& frame) { frame.travels[3] ^= 1; }));
  EXPECT_FALSE(opens([](std::string&, Sealed& frame) { frame.travels.pop_back(); }));
  EXPECT_FALSE(opens([](std::string&, Sealed& frame) { frame.tag[15] ^= 1; }));

  FrameCipher seal(kKey, GetParam(), Use::kSeal), open(kKey, GetParam(), Use::kOpen);
  FrameCipher other(std::string(FrameCipher::kKeyBytes, 'o'), GetParam(), Use::kOpen);
  Sealed first = Seal(seal, "head", "gradients"), second = Seal(seal, "head", "gradients");
  std::string travels = first.travels;
  EXPECT_FALSE(Open(other, "head", &travels, first.tag));
  EXPECT_FALSE(Open(open, "head", &second.travels, second.tag)) << "one is left out";
  EXPECT_FALSE(Open(open, "head", &first.travels, first.tag)) << "one is said again";
}

INSTANTIATE_TEST_SUITE_P(Protections, FrameCipherTest,
                         ::testing::Values(Protection::kTag, Protection::kEncrypt),
                         [](const auto& one) { return one.param == Protection::kTag ? "Tag" : "Encrypt"; });

}  // namespace
}  // namespace mtrun::collectives

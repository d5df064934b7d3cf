#include "trainers/collectives/frames.h"

#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "base/posix.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"

namespace mtrun::collectives {
namespace {

constexpr size_t kMany =
    (size_t{3} << 20) + 5;  // more than a socket buffers, and more than the cipher processes in one call

std::unique_ptr<FrameCipher> Cipher(FrameCipher::Use use, Protection protection) {
  return std::make_unique<FrameCipher>(std::string(FrameCipher::kKeyBytes, 'k'), protection, use);
}

struct Wire {
  UniqueFd near, far;
  Wire() {
    int ends[2];
    MT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    near = UniqueFd(ends[0]);
    far = UniqueFd(ends[1]);
  }
};

std::string Payload(size_t bytes) {
  std::string payload(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) payload[i] = static_cast<char>(i * 7 + i / 251);
  return payload;
}

class FramesTest : public ::testing::TestWithParam<Protection> {};

TEST_P(FramesTest, FramesOfAnySizeArriveWhole) {
  Wire wire;
  const auto seal = Cipher(FrameCipher::Use::kSeal, GetParam()),
             open = Cipher(FrameCipher::Use::kOpen, GetParam());
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1} << 18, (size_t{1} << 18) + 1, kMany}) {
    const std::string payload = Payload(bytes);
    std::string room(bytes, '?');
    // Pieces of the sender are not those of the receiver.
    const size_t third = bytes / 3, half = bytes / 2;
    FrameSender sender(wire.near.get(), *seal, {.phase = 9, .call = {}, .bytes = bytes},
                       {ConstBytes{payload.data(), third}, ConstBytes{payload.data() + third, 0},
                        ConstBytes{payload.data() + third, bytes - third}});
    FrameReceiver receiver(wire.far.get(), *open,
                           {MutableBytes{room.data(), half}, MutableBytes{room.data() + half, bytes - half}});
    bool head = false;
    while (!receiver.done()) {
      if (!sender.done()) {
        ASSERT_LE(sender.Advance(), Progress::kMoved);
      }
      const Progress progress = receiver.Advance();
      ASSERT_LE(progress, Progress::kHead);
      if (progress == Progress::kHead) {
        EXPECT_EQ(receiver.head().phase, 9u);
        EXPECT_EQ(receiver.head().bytes, bytes);
        head = true;
      }
    }
    EXPECT_TRUE(sender.done() && head);
    EXPECT_TRUE(room == payload) << bytes;
  }
}

TEST_P(FramesTest, PayloadIsHiddenOnlyIfEncrypted) {
  Wire wire;
  const auto seal = Cipher(FrameCipher::Use::kSeal, GetParam());
  const std::string payload = "the weights of a secret network";
  FrameSender sender(wire.near.get(), *seal, {.call = {}, .bytes = payload.size()},
                     {ConstBytes{payload.data(), payload.size()}});
  while (!sender.done()) ASSERT_EQ(sender.Advance(), Progress::kMoved);
  std::string travels(4096, '\0');
  travels.resize(static_cast<size_t>(read(wire.far.get(), travels.data(), travels.size())));
  EXPECT_EQ(travels.size(), sizeof(FrameHead) + payload.size() + FrameCipher::kTagBytes);
  EXPECT_EQ(travels.find(payload) != std::string::npos, GetParam() == Protection::kTag);
}

TEST_P(FramesTest, AlteredByteIsDetected) {
  // Alter a byte of the head, the payload and the tag.
  for (const size_t altered : {size_t{20}, sizeof(FrameHead) + 3, sizeof(FrameHead) + 9 + 2}) {
    Wire wire, far;
    const auto seal = Cipher(FrameCipher::Use::kSeal, GetParam()),
               open = Cipher(FrameCipher::Use::kOpen, GetParam());
    const std::string payload = "gradients";
    FrameSender sender(wire.near.get(), *seal, {.call = {}, .bytes = 9}, {ConstBytes{payload.data(), 9}});
    ASSERT_EQ(sender.Advance(), Progress::kMoved);
    char travels[sizeof(FrameHead) + 9 + FrameCipher::kTagBytes];
    ASSERT_EQ(read(wire.far.get(), travels, sizeof travels), static_cast<ssize_t>(sizeof travels));
    travels[altered] = static_cast<char>(travels[altered] ^ 4);
    ASSERT_EQ(write(far.near.get(), travels, sizeof travels), static_cast<ssize_t>(sizeof travels));
    char room[9];
    FrameReceiver receiver(far.far.get(), *open, {MutableBytes{room, 9}});
    Progress progress = Progress::kMoved;
    while (!receiver.done()) progress = receiver.Advance();
    EXPECT_EQ(progress, Progress::kForged) << altered;
  }
}

TEST_P(FramesTest, TruncatedConnectionIsReportedAsHungUp) {
  Wire wire;
  const auto open = Cipher(FrameCipher::Use::kOpen, GetParam());
  ASSERT_EQ(write(wire.near.get(), "mtfram", 6), 6);
  char room[9];
  FrameReceiver receiver(wire.far.get(), *open, {MutableBytes{room, 9}});
  EXPECT_EQ(receiver.Advance(), Progress::kMoved);
  EXPECT_EQ(receiver.Advance(), Progress::kNone);
  wire.near.Reset();
  EXPECT_EQ(receiver.Advance(), Progress::kHungUp);
}

INSTANTIATE_TEST_SUITE_P(Protections, FramesTest, ::testing::Values(Protection::kTag, Protection::kEncrypt),
                         [](const auto& one) { return one.param == Protection::kTag ? "Tag" : "Encrypt"; });

}  // namespace
}  // namespace mtrun::collectives

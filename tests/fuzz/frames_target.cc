#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"
#include "trainers/collectives/operations.h"
#include "trainers/collectives/transport.h"
#include "trainers/collectives/tree_sum.h"

namespace mtrun::fuzz {
namespace {

using namespace collectives;  // NOLINT: the code under test

constexpr uint64_t kGeneration = 42;
constexpr size_t kCount = 24;  // elements per call

std::unique_ptr<FrameCipher> Cipher(FrameCipher::Use use) {
  return std::make_unique<FrameCipher>(std::string(FrameCipher::kKeyBytes, 'k'), Protection::kTag, use);
}

struct Frames {
  std::string bytes;
  int sound = 0;  // before the first one with a corrupted tag
};

/// Seals the frames of a peer that has the key and sends the fuzzer's bytes: each frame is a head, a byte for
/// the payload's length, the payload and a byte that is odd if the tag is corrupted.
Frames Sealed(std::string_view bytes) {
  const auto cipher = Cipher(FrameCipher::Use::kSeal);
  Frames frames;
  bool corrupted = false;
  while (bytes.size() > sizeof(FrameHead) + 1) {
    const std::string_view head = bytes.substr(0, sizeof(FrameHead));
    const size_t length = static_cast<unsigned char>(bytes[sizeof(FrameHead)]);
    bytes.remove_prefix(sizeof(FrameHead) + 1);
    const std::string_view payload = bytes.substr(0, length);
    bytes.remove_prefix(payload.size());
    cipher->Begin(head.data(), head.size());
    cipher->Pass(payload.data(), payload.size(), nullptr);
    FrameCipher::Tag tag = cipher->Finish();
    if (!bytes.empty()) {
      corrupted = corrupted || bytes[0] % 2 != 0;
      if (bytes[0] % 2 != 0) tag[0] ^= 1;
      bytes.remove_prefix(1);
    }
    if (!corrupted) ++frames.sound;
    frames.bytes.append(head).append(payload).append(reinterpret_cast<const char*>(tag.data()), tag.size());
  }
  frames.bytes.append(bytes);  // a connection that ends in the middle of a frame
  return frames;
}

/// Rank 0 of two, whose peer on another host has sent `bytes` and closed.
struct Half {
  explicit Half(std::string_view bytes) {
    int ends[2];
    MT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    far = UniqueFd(ends[1]);
    MT_CHECK(bytes.empty() || send(far.get(), bytes.data(), bytes.size(), 0) > 0);
    MT_CHECK(shutdown(far.get(), SHUT_WR) == 0);
    peers[1].rank = 1;
    peers[1].name = "rank 1";
    peers[1].data = UniqueFd(ends[0]);
    peers[1].seal = Cipher(FrameCipher::Use::kSeal);
    peers[1].open = Cipher(FrameCipher::Use::kOpen);
    auto segment = OwnSegment::Create(kGeneration, 0, 2, kPage);
    MT_CHECK(segment.ok()) << segment.status();
    transport = std::make_unique<Transport>(0, kGeneration, *std::move(segment), peers, failure);
    MT_CHECK(transport->Open().ok());
    transport->MarkLeft(1);  // a disconnecting peer reports at once that it has left
  }

  UniqueFd far;
  std::vector<Peer> peers = std::vector<Peer>(2);
  Failure failure;
  std::unique_ptr<Transport> transport;
};

absl::Status AllReduceOf(Transport& transport, unsigned char choice) {
  std::vector<char> data(kCount * sizeof(double), 1);
  Notes notes;
  notes.own = "note";
  const auto dtype = static_cast<DataType>(choice % 5);
  const bool whole = dtype == DataType::kInt64 || dtype == DataType::kUint8;
  const ReduceOp reduce = whole ? ReduceOp::kSum : static_cast<ReduceOp>(choice / 5 % 4);
  const Call call = {.operation = Operation::kAllReduce,
                     .dtype = dtype,
                     .reduce = reduce,
                     .note = static_cast<uint8_t>(notes.own.size()),
                     .count = kCount};
  const TreePlan plan = PlanTree({{0, 1}, {1, 2}}, /*leaves=*/2, /*filled=*/2);
  return AllReduce(transport, call, data.data(), plan, &notes);
}

absl::Status Run(Transport& transport, unsigned char choice) {
  std::vector<char> data(kCount), other(kCount);
  switch (choice % 4) {
    case 0:
      return Barrier(transport, {.operation = Operation::kBarrier});
    case 1:
      return Broadcast(transport, {.operation = Operation::kBroadcast, .root = 1, .count = kCount},
                       data.data());
    case 2:
      return AllGather(transport, {.operation = Operation::kAllGather, .count = kCount}, data.data(),
                       {data.data(), other.data()});
    default:
      return AllReduceOf(transport, choice / 4);
  }
}

}  // namespace

// The first two bytes choose two calls; the rest is what the peer sends. Each call needs a frame of the peer whose
// tag is right.
void FuzzFrames(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const Frames frames = Sealed(bytes.substr(2));
  Half half(frames.bytes);
  int done = 0;
  for (const char choice : {bytes[0], bytes[1]}) {
    if (!Run(*half.transport, static_cast<unsigned char>(choice)).ok()) break;
    ++done;
  }
  MT_HOLDS(done <= frames.sound) << done << " calls ended with " << frames.sound << " sound frames";
}

}  // namespace mtrun::fuzz

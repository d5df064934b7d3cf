#include <algorithm>
#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"
#include "trainers/collectives/segment.h"

namespace mtrun::fuzz {
namespace {

using namespace collectives;  // NOLINT: the code under test

constexpr uint64_t kSegmentGeneration = 42;
constexpr size_t kSlot = 2 * kPage;

template <typename T>
T TakeNumber(std::string_view& bytes) {
  T value{};
  std::memcpy(static_cast<void*>(&value), bytes.data(), std::min(sizeof(T), bytes.size()));
  bytes.remove_prefix(std::min(sizeof(T), bytes.size()));
  return value;
}

}  // namespace

// A peer's segment of two slots and two areas. If the first byte is odd, the next bytes overwrite the
// start of its header. The rest are notices, each with the number of bytes requested from the exposed area.
void FuzzSegment(std::string_view bytes) {
  if (bytes.empty()) return;
  auto own = OwnSegment::Create(kSegmentGeneration, 1, 2, kSlot);
  MT_CHECK(own.ok()) << own.status();
  const auto first = (*own)->Allocate(kPage), second = (*own)->Allocate(3 * kPage);
  MT_CHECK(first.ok() && second.ok());
  auto file = (*own)->ReadOnly();
  MT_CHECK(file.ok());
  const bool damaged = TakeNumber<uint8_t>(bytes) % 2 == 1;
  if (damaged) {
    const size_t size = std::min<size_t>(32, bytes.size());
    std::memcpy(static_cast<void*>(&(*own)->header()), bytes.data(), size);
    bytes.remove_prefix(size);
  }
  const auto peer = PeerSegment::Open(*std::move(file), kSegmentGeneration, 1, 2, kSlot);
  MT_HOLDS(peer.ok() || damaged) << peer.status();
  while (peer.ok() && !bytes.empty()) {
    const Notice notice = TakeNumber<Notice>(bytes);
    const size_t wanted = TakeNumber<uint16_t>(bytes);
    const auto view = (*peer)->View(notice, wanted);
    const volatile char* const exposed = view.ok() ? *view : nullptr;
    for (size_t i = 0; view.ok() && i < wanted; ++i) exposed[i];  // ends the process if nothing is mapped
  }
}

}  // namespace mtrun::fuzz

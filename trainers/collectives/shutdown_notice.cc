#include "trainers/collectives/shutdown_notice.h"

#include <algorithm>

namespace mtrun::collectives {
namespace {

constexpr size_t kPrefix = 3;
constexpr size_t kMaxReason = kMaxNoticeBytes - kPrefix;

size_t NoticeNumber(char byte) { return static_cast<unsigned char>(byte); }

}  // namespace

std::string Encode(const ShutdownNotice& notice) {
  if (notice.graceful) return "G";
  const size_t size = std::min(notice.why.size(), kMaxReason);
  std::string bytes = "A";
  bytes += static_cast<char>(size & 0xff);
  bytes += static_cast<char>(size >> 8);
  return bytes + notice.why.substr(0, size);
}

std::optional<ShutdownNotice> DecodeShutdownNotice(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  if (bytes[0] == 'G') return ShutdownNotice{};
  if (bytes[0] == 'A' && bytes.size() < kPrefix) return std::nullopt;
  const size_t size =
      bytes[0] == 'A' ? NoticeNumber(bytes[1]) + 256 * NoticeNumber(bytes[2]) : kMaxNoticeBytes;
  if (size > kMaxReason) return ShutdownNotice{.graceful = false, .why = "it sent an invalid notice"};
  if (bytes.size() < kPrefix + size) return std::nullopt;
  return ShutdownNotice{.graceful = false, .why = std::string(bytes.substr(kPrefix, size))};
}

}  // namespace mtrun::collectives

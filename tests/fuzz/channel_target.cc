#include <algorithm>
#include <optional>
#include <string>

#include "base/json_lines.h"
#include "base/worker_channel.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

template <typename Message, typename Decode>
void RoundTrip(const std::string& line, const Decode& decode) {
  const absl::StatusOr<Message> message = decode(line);
  if (!message.ok()) return;
  std::string encoded = channel::Encode(*message);
  MT_HOLDS(!encoded.empty() && encoded.back() == '\n') << encoded;
  encoded.pop_back();
  const absl::StatusOr<Message> again = decode(encoded);
  MT_HOLDS(again.ok() && channel::Encode(*again) == encoded + "\n") << encoded;
}

}  // namespace

// The first byte selects the pieces in which the rest arrives.
void FuzzChannel(std::string_view bytes) {
  if (bytes.empty()) return;
  const size_t piece = 1 + static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(1);
  LineBuffer lines(1 << 16);
  while (!bytes.empty()) {
    if (!lines.Append(bytes.substr(0, piece)).ok()) return;
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (const std::optional<std::string> line = lines.Next()) {
      RoundTrip<channel::WorkerMessage>(*line, channel::DecodeWorkerMessage);
      RoundTrip<channel::AgentMessage>(*line, channel::DecodeAgentMessage);
      if (const auto generation = channel::ParseGeneration(*line); generation.ok()) {
        MT_HOLDS(channel::ParseGeneration(channel::ToText(*generation)).value() == *generation);
      }
    }
  }
}

}  // namespace mtrun::fuzz

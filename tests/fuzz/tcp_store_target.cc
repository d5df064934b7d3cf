#include <algorithm>
#include <vector>

#include "launcher/store/store_state.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"
#include "tests/support/store_client.h"

namespace mtrun::fuzz {
namespace {

using namespace launcher;  // NOLINT: the code under test

constexpr size_t kClients = 4;
constexpr StoreState::Limits kSmall = {.most_bytes = 4096, .most_answer_bytes = 1024};

/// A parsed request equals what a client would have written.
void CheckRoundTrip(const StoreRequest& request, bool first) {
  StoreParser again;
  const StoreRequest greeting = {.command = StoreCommand::kValidate, .number = StoreParser::kMagic};
  if (!first) {
    again.Append(Encode(greeting));
    MT_HOLDS(again.Next().value().has_value());
  }
  again.Append(Encode(request));
  const auto copy = again.Next();
  MT_HOLDS(copy.ok() && *copy && **copy == request) << copy.status();
}

}  // namespace

// Pieces: a byte for the client, a byte for the length, the bytes that it sends.
void FuzzTcpStore(std::string_view bytes) {
  StoreState state(kSmall);
  std::vector<StoreParser> parsers(kClients);
  std::vector<bool> open(kClients, true);
  while (bytes.size() > 2) {
    const auto client = static_cast<size_t>(static_cast<unsigned char>(bytes[0])) % kClients;
    const std::string_view said = bytes.substr(2, static_cast<unsigned char>(bytes[1]));
    bytes.remove_prefix(2 + said.size());
    if (!open[client]) continue;
    parsers[client].Append(said);
    while (open[client]) {
      const bool first = !parsers[client].validated();
      auto request = parsers[client].Next();
      if (request.ok() && !*request) break;
      if (request.ok()) CheckRoundTrip(**request, first);
      open[client] = request.ok() && state.Apply(static_cast<int64_t>(client), **std::move(request)).ok();
      if (!open[client]) state.Forget(static_cast<int64_t>(client));
      state.CheckInvariants();
    }
  }
  for (size_t client = 0; client < kClients; ++client) state.Forget(static_cast<int64_t>(client));
  state.CheckInvariants();
  MT_HOLDS(state.waiting() == 0) << state.waiting();
}

}  // namespace mtrun::fuzz

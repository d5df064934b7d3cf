#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "launcher/ssh/hosts.h"
#include "launcher/ssh/wire.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

using namespace launcher;  // NOLINT: the code under test

/// Neither ssh nor a shell misinterprets a host, and a host that is written can be read again.
void CheckHosts(const absl::StatusOr<std::vector<Host>>& hosts) {
  if (!hosts.ok()) {
    MT_HOLDS(!hosts.status().message().empty());
    return;
  }
  MT_HOLDS(!hosts->empty() && hosts->size() <= kMaxSshHosts);
  std::string list, file;
  for (const Host& host : *hosts) {
    const std::string destination = Destination(host);
    MT_HOLDS(!host.name.empty() && host.workers >= 0) << destination;
    MT_HOLDS(destination.front() != '-' && host.name.front() != '-') << destination;
    for (const char c : destination)
      MT_HOLDS(absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._@:", c))
          << destination;
    const bool bracketed = absl::StrContains(host.name, ':');
    const std::string written = absl::StrCat(host.user, host.user.empty() ? "" : "@", bracketed ? "[" : "",
                                             host.name, bracketed ? "]" : "");
    absl::StrAppend(&list, list.empty() ? "" : ",", written,
                    host.workers > 0 ? absl::StrCat(":", host.workers) : "");
    absl::StrAppend(&file, written, host.workers > 0 ? absl::StrCat(" slots=", host.workers) : "", "\n");
  }
  MT_HOLDS(*ParseHosts(list) == *hosts) << list;
  MT_HOLDS(*ParseHostfile(file) == *hosts) << file;
}

void ReadHostsInput(std::string_view bytes) {
  HostInput input;
  input.Append(bytes);
  while (true) {
    const auto message = input.Next();
    if (!message.ok() || !*message) return;
    const auto* order = std::get_if<Order>(&**message);
    if (order == nullptr) continue;
    HostInput again;
    again.Append(Encode(*order));
    const auto copy = again.Next();
    MT_HOLDS(copy.ok() && *copy && std::get<Order>(**copy) == *order);
  }
}

/// Checks that split input loses no output.
void ReadHostsOutput(std::string_view bytes) {
  HostOutput whole, cut;
  const HostOutput::Piece all = whole.Feed(bytes);
  std::string output;
  bool ended = false;
  for (const char byte : bytes) {
    const HostOutput::Piece piece = cut.Feed({&byte, 1});
    output += piece.output;
    if ((ended = piece.end_status.has_value())) break;
  }
  if (ended) return;
  output += cut.Flush();
  MT_HOLDS(all.output + whole.Flush() == output);
}

}  // namespace

void FuzzHosts(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view text = bytes.substr(1);
  switch (bytes[0] % 4) {
    case 0:
      return CheckHosts(ParseHosts(text));
    case 1:
      return CheckHosts(ParseHostfile(text));
    case 2:
      return ReadHostsInput(text);
    default:
      return ReadHostsOutput(text);
  }
}

}  // namespace mtrun::fuzz

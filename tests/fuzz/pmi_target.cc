#include <string>
#include <vector>

#include "launcher/pmi/message.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace mtrun::fuzz {
namespace {

using namespace launcher;  // NOLINT: the code under test

/// Returns all messages before the first invalid one.
std::vector<PmiMessage> ReadPmi(std::string_view bytes, size_t at_once) {
  PmiParser parser;
  std::vector<PmiMessage> messages;
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, at_once);
    bytes.remove_prefix(piece.size());
    parser.Append(piece);
    while (true) {
      auto message = parser.Next();
      if (!message.ok()) return messages;
      if (!*message) break;
      messages.push_back(**std::move(message));
    }
  }
  return messages;
}

}  // namespace

void FuzzPmi(std::string_view bytes) {
  const std::vector<PmiMessage> messages = ReadPmi(bytes, bytes.size());
  MT_HOLDS(ReadPmi(bytes, 1) == messages) << "in pieces as in one";
  for (const PmiMessage& message : messages) {
    MT_HOLDS(!message.command.empty());
    const std::vector<PmiMessage> copy = ReadPmi(Encode(message), PmiParser::kMaxBytes);
    MT_HOLDS(copy.size() == 1 && copy.front() == message) << message.command;
  }
}

}  // namespace mtrun::fuzz

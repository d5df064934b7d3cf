// Encodes requests as a client of PyTorch's TCPStore does.
#pragma once

#include <bit>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "launcher/store/store_requests.h"

namespace mtrun::launcher {

inline std::string Encode(const StoreRequest& request) {
  static_assert(std::endian::native == std::endian::little, "numbers go as PyTorch copies them");
  // The fields of each command: k key, v value, i int64, u uint32, n count of the following fields.
  constexpr const char* kFields[] = {"u",  "kv",  "kvv", "k", "ki", "nk", "nk", "", "k", "kv",
                                     "nk", "nkv", "",    "u", "kv", "k",  "k",  "", "ki"};
  static_assert(std::size(kFields) == static_cast<size_t>(StoreCommand::kBarrier) + 1);
  std::string bytes(1, static_cast<char>(request.command));
  const auto put = [&](auto number) { bytes.append(reinterpret_cast<const char*>(&number), sizeof number); };
  const auto put_text = [&](const std::string& text) {
    put(uint64_t{text.size()});
    bytes += text;
  };
  const std::string_view fields = kFields[static_cast<size_t>(request.command)];
  const bool many = fields.starts_with('n');
  if (many) put(uint64_t{request.keys.size()});
  const size_t rounds = many ? request.keys.size() : 1;
  auto value = request.values.begin();
  for (size_t round = 0; round < rounds; ++round) {
    for (const char field : fields.substr(many ? 1 : 0)) {
      if (field == 'k') put_text(request.keys[round]);
      if (field == 'v') put_text(*value++);
      if (field == 'i') put(request.number);
      if (field == 'u') put(static_cast<uint32_t>(request.number));
    }
  }
  return bytes;
}

}  // namespace mtrun::launcher

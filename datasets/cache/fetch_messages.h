// What processes that need a set and the fetcher of their machine say to each other: a JSON object a line,
// over a Unix socket in the cache's folder (docs/protocol.md). Values and their codec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::datasets::fetch {

// ---- to the fetcher

/// What opens the server's doors. It never leaves this machine as it is, and is not written down.
struct Secrets {
  std::string data_key = "";                                         // of mtrun's own servers, "" for none
  std::string bearer = "";                                           // for any other server, "" for none
  std::string access_key = "", secret_key = "", session_token = "";  // of s3
  bool operator==(const Secrets&) const = default;
};

/// First message: which set.
struct Open {
  std::string url;
  Secrets secrets = {};
  std::string s3_endpoint = "", s3_region = "";  // of s3
  bool redirects = false;   // other hosts that the server names may be asked too, without secrets
  int64_t cache_bytes = 0;  // what the whole cache may hold, 0: as much as the disk
  bool operator==(const Open&) const = default;
};
/// Files of the set in the order in which they are needed; what was wanted before is not any more.
struct Want {
  std::vector<std::string> files;
  bool operator==(const Want&) const = default;
};

// ---- from the fetcher

/// The index is in the cache, in the folder `digest`.
struct Opened {
  std::string digest;
  bool operator==(const Opened&) const = default;
};
/// A file is there.
struct Here {
  std::string file;
  bool operator==(const Here&) const = default;
};
/// What keeps it waiting, "" when it goes on.
struct Trouble {
  std::string text;
  bool operator==(const Trouble&) const = default;
};
/// It will not be had, whatever the time: `text` says why.
struct Failed {
  std::string text;
  bool operator==(const Failed&) const = default;
};

using Message = std::variant<Open, Want, Opened, Here, Trouble, Failed>;

/// One line with its '\n'.
std::string Encode(const Message& message);
/// A line without '\n'. kInvalidArgument says what is wrong with it.
absl::StatusOr<Message> Decode(std::string_view line);

}  // namespace mtrun::datasets::fetch

// Messages between processes that need a set and their machine's fetcher: one JSON object per line, over a
// Unix socket in the cache's folder (docs/protocol.md). Values and their codec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::datasets::fetch {

// ---- to the fetcher

/// Credentials for the server. They never leave this machine as they are, and are never written to disk.
struct Secrets {
  std::string data_key = "";                                         // for mtrun's own servers, "" for none
  std::string bearer = "";                                           // for any other server, "" for none
  std::string access_key = "", secret_key = "", session_token = "";  // for s3
  bool operator==(const Secrets&) const = default;
};

/// The first message: names the set.
struct Open {
  std::string url;
  Secrets secrets = {};
  std::string s3_endpoint = "", s3_region = "";  // for s3
  bool redirects = false;                        // follow redirects to other hosts, without secrets
  int64_t cache_bytes = 0;                       // limit of the whole cache, 0: as much as the disk holds
  bool operator==(const Open&) const = default;
};
/// Files of the set in the order in which they are needed. Replaces the previous list.
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
/// The file is in the cache.
struct Here {
  std::string file;
  bool operator==(const Here&) const = default;
};
/// The reason why the fetcher has to wait; "" when it continues.
struct Trouble {
  std::string text;
  bool operator==(const Trouble&) const = default;
};
/// The set or file cannot be fetched, and a retry will not help: `text` says why.
struct Failed {
  std::string text;
  bool operator==(const Failed&) const = default;
};

using Message = std::variant<Open, Want, Opened, Here, Trouble, Failed>;

/// Encodes a message as one line, including the '\n'.
std::string Encode(const Message& message);
/// Decodes a line without its '\n'. kInvalidArgument: the message says what is wrong.
absl::StatusOr<Message> Decode(std::string_view line);

}  // namespace mtrun::datasets::fetch

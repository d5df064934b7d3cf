// The URL of a remote packed data set, as given by --data. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mtrun::datasets {

struct DataUrl {
  std::string scheme;  // "https", "http" or "s3"
  std::string host;    // without brackets; the bucket for s3
  int port = 0;        // 0 for s3
  std::string path;    // "/photos", percent-encoded as given, without a trailing "/"; "": the root
  bool operator==(const DataUrl&) const = default;
};

/// Returns true if `text` is meant as a URL, not as a folder.
bool IsDataUrl(std::string_view text);

/// kInvalidArgument: unsupported scheme, user name, query, no host, ".." in the path, or port out of range.
/// http is only for this machine (data can be changed on the way).
absl::StatusOr<DataUrl> ParseDataUrl(std::string_view text);
/// Returns "https://host:port/photos", without the scheme's default port.
std::string ToText(const DataUrl& url);
/// Percent-encodes a folder's path: "my set/50%" becomes "my%20set/50%25".
std::string PathInUrl(std::string_view path);

}  // namespace mtrun::datasets

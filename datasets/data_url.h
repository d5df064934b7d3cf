// Where a packed data set lies when it is not on this machine, as --data names it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mtrun::datasets {

struct DataUrl {
  std::string scheme;  // "https", "http" or "s3"
  std::string host;    // without brackets; of s3 the bucket
  int port = 0;        // 0 for s3
  std::string path;    // "/photos", percent-encoded as it was given, without a "/" at its end; "": the root
  bool operator==(const DataUrl&) const = default;
};

/// Whether `text` is meant as a URL and not as a folder.
bool IsDataUrl(std::string_view text);

/// kInvalidArgument says what is wrong: another scheme, a user name, a query, no host, ".." in the path, a
/// port out of range. http is for this machine alone (what is read there can be changed on the way).
absl::StatusOr<DataUrl> ParseDataUrl(std::string_view text);
/// "https://host:port/photos"; the port is left out where it is the scheme's own.
std::string ToText(const DataUrl& url);
/// What a folder's path is in a URL: "my set/50%" is "my%20set/50%25".
std::string PathInUrl(std::string_view path);

}  // namespace mtrun::datasets

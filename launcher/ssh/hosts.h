// The hosts on which mtrun is started by ssh, in the user's notation. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

/// Each host costs this machine one process and four descriptors.
inline constexpr size_t kMaxSshHosts = 4096;

struct Host {
  std::string user = {};  // "": ssh's default
  std::string name = {};  // a name, an alias of ssh's configuration, or an address
  int workers = 0;        // 0: not given
  bool operator==(const Host&) const = default;
};

/// Returns the destination argument for ssh: "me@node1".
std::string Destination(const Host& host);

/// Parses "a,me@b:8,node[1-4]:2,[2001:db8::1]:8": [user@]host[:workers], with Slurm's ranges.
/// kInvalidArgument describes the error: a missing or invalid name (it begins with a dash, for example), an
/// invalid number of workers, a repeated host, no host or too many.
absl::StatusOr<std::vector<Host>> ParseHosts(std::string_view text);

/// Parses a file with one host per line: "[user@]host [slots=N]", or as above; # begins a comment.
/// kInvalidArgument begins with the line number.
absl::StatusOr<std::vector<Host>> ParseHostfile(std::string_view text);

}  // namespace mtrun::launcher

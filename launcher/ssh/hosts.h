// The hosts on which mtrun is started by ssh, as people write them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mtrun::launcher {

/// Each host costs this end a process and four descriptors.
inline constexpr size_t kMostSshHosts = 4096;

struct Host {
  std::string user = {};  // "": whom ssh takes
  std::string name = {};  // a name, one of ssh's configuration, or an address
  int workers = 0;        // 0: not said
  bool operator==(const Host&) const = default;
};

/// What ssh is given: "me@node1".
std::string Destination(const Host& host);

/// "a,me@b:8,node[1-4]:2,[2001:db8::1]:8": [user@]host[:workers]; ranges as Slurm writes them.
/// kInvalidArgument says what is wrong: no name, one that begins with a dash or has characters that no host
/// name has, a number of workers that is none, a host named twice, none or too many.
absl::StatusOr<std::vector<Host>> ParseHosts(std::string_view text);

/// A file of them, a line each: "[user@]host [slots=N]", or as above; # begins a comment. kInvalidArgument
/// begins with the number of the line.
absl::StatusOr<std::vector<Host>> ParseHostfile(std::string_view text);

}  // namespace mtrun::launcher

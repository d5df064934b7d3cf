// The command line of the ssh that reaches one host: the user's own OpenSSH, so that its configuration, its
// keys and its jump hosts count. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/ssh/hosts.h"

namespace mtrun::launcher {

/// What ssh starts on a host.
struct RemoteMtrun {
  std::string path;    // not ""
  bool given = false;  // --ssh_mtrun: no other will do
};

/// The only argument of an mtrun that ssh starts.
inline constexpr char kSshHostFlag[] = "--ssh_host";

/// Words that a blank ends; '...' and "..." keep blanks. kInvalidArgument: none, or a quote that has no end.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view text);

/// One word for any shell of a user (sh, csh, fish), whatever is in it.
std::string ShellQuoted(std::string_view word);

/// Starts `mtrun` in whatever shell the user has there. What it is to do comes over its standard input:
/// nothing of the job, its token least of all, is seen on a command line.
std::string RemoteCommand(const RemoteMtrun& mtrun);

/// `ssh`: the program and its first arguments, which win over those that follow here: no questions, an
/// answer within 10 s, and an end within 15 s when the host falls silent.
std::vector<std::string> SshCommand(std::vector<std::string> ssh, const Host& host, const RemoteMtrun& mtrun);

/// One sentence about a connection that came to nothing, for people who may have to mend it: `said` is what
/// ssh and the shell there wrote to standard error, `status` how ssh ended.
std::string WhyUnreachable(const Host& host, const RemoteMtrun& mtrun, std::string_view said, int status);

}  // namespace mtrun::launcher

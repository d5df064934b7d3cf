// The command line of the user's own OpenSSH, whose configuration, keys and jump hosts apply. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/ssh/hosts.h"

namespace mtrun::launcher {

/// The mtrun to start on a host.
struct RemoteMtrun {
  std::string path;    // not ""
  bool given = false;  // --ssh_mtrun: accept no other
};

/// The only argument of an mtrun that ssh starts.
inline constexpr char kSshHostFlag[] = "--ssh_host";

/// Splits at blanks; '...' and "..." keep them. kInvalidArgument: no words, or an unclosed quote.
absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view text);

/// Quotes any text as one word for any login shell (sh, csh, fish).
std::string ShellQuoted(std::string_view word);

/// Returns the command that starts `mtrun` in any login shell. The order follows on its standard input, so
/// that nothing of the job, in particular its token, appears on a command line.
std::string RemoteCommand(const RemoteMtrun& mtrun);

/// Returns the command line. `ssh`: the program and its first arguments, which take precedence over those
/// added here: no prompts, connect within 10 s, and exit within 15 s if the host falls silent.
std::vector<std::string> SshCommand(std::vector<std::string> ssh, const Host& host, const RemoteMtrun& mtrun);

/// Explains a failed connection in one sentence that helps to fix it. `said`: standard error of ssh and the
/// remote shell; `status`: exit status of ssh.
std::string WhyUnreachable(const Host& host, const RemoteMtrun& mtrun, std::string_view said, int status);

}  // namespace mtrun::launcher

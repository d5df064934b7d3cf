#include "launcher/ssh/ssh_command.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/string_view.h"

namespace mtrun::launcher {
namespace {

constexpr size_t kMaxWhy = 300;
constexpr int kNotFound = 127, kNotExecutable = 126;

/// Returns the last line, which has the reason; debug lines and output of shell startup files come before it.
absl::string_view LastLine(std::string_view said) {
  absl::string_view last;
  for (absl::string_view line : absl::StrSplit(View(said), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) last = line;
  }
  return last.substr(0, kMaxWhy);
}

std::string WhyDenied(const Host& host, absl::string_view line) {
  if (absl::StrContains(line, "password") || absl::StrContains(line, "keyboard-interactive")) {
    return absl::StrCat("it asks for a password, which mtrun cannot give: set up a key (ssh-copy-id ",
                        Destination(host), "), so that `ssh ", Destination(host), "` asks nothing");
  }
  return absl::StrCat("it accepts none of your keys: ", line);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;
  bool within = false;
  for (const char c : text) {
    if (quote == 0 && absl::ascii_isspace(static_cast<unsigned char>(c))) {
      within = false;
      continue;
    }
    if (!within) words.emplace_back();
    within = true;
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return absl::InvalidArgumentError("a quote is not closed");
  if (words.empty() || words.front().empty()) return absl::InvalidArgumentError("no program is named");
  return words;
}

std::string ShellQuoted(std::string_view word) {
  // csh expands ! even in quotes, and fish treats a backslash as an escape.
  return absl::StrCat(
      "'", absl::StrReplaceAll(View(word), {{"'", "'\\''"}, {"!", "'\\!'"}, {"\\", "'\\\\'"}}), "'");
}

std::string RemoteCommand(const RemoteMtrun& mtrun) {
  if (mtrun.given) return absl::StrCat("exec ", ShellQuoted(mtrun.path), " ", kSshHostFlag);
  const std::string script =
      absl::StrCat("test -x \"$1\" && exec \"$1\" ", kSshHostFlag, "; exec mtrun ", kSshHostFlag);
  return absl::StrCat("exec sh -c ", ShellQuoted(script), " sh ", ShellQuoted(mtrun.path));
}

std::vector<std::string> SshCommand(std::vector<std::string> ssh, const Host& host,
                                    const RemoteMtrun& mtrun) {
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5",
                             "ServerAliveCountMax=3", "RequestTTY=no"}) {
    ssh.push_back("-o");
    ssh.push_back(option);
  }
  ssh.push_back("--");
  ssh.push_back(Destination(host));
  ssh.push_back(RemoteCommand(mtrun));
  return ssh;
}

std::string WhyUnreachable(const Host& host, const RemoteMtrun& mtrun, std::string_view said, int status) {
  absl::string_view line = LastLine(said);
  if (absl::StrContains(line, "Permission denied (")) return WhyDenied(host, line);
  if (absl::StrContains(line, "Host key verification failed")) {
    return absl::StrCat("its host key is unknown or has changed: run `ssh ", Destination(host),
                        "` for details");
  }
  if (status == kNotFound || status == kNotExecutable) {
    return absl::StrCat("there is no mtrun at ", mtrun.path, mtrun.given ? "" : ", nor on its PATH",
                        " (set its path with --ssh_mtrun): ", line);
  }
  if (absl::StrContains(line, "unknown flag") && absl::StrContains(line, kSshHostFlag))
    return absl::StrCat("the mtrun there is older than --hosts: ", line);
  absl::ConsumePrefix(&line, "ssh: ");
  if (line.empty()) return absl::StrCat("ssh ended with status ", status);
  return std::string(line);
}

}  // namespace mtrun::launcher

#include "launcher/ssh/hosts.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "base/string_view.h"
#include "launcher/cli/hostlist.h"

namespace mtrun::launcher {
namespace {

constexpr int kMaxWorkers = 4096;
constexpr size_t kMaxBytes = 1 << 20, kMaxUser = 64, kShown = 80;

absl::Status Refuse(absl::string_view what, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(what.substr(0, kShown)), "\": ", why));
}

absl::Status CheckUser(absl::string_view item, absl::string_view user) {
  const bool plain = std::all_of(user.begin(), user.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  });
  if (user.empty() || user.size() > kMaxUser || user.front() == '-' || !plain)
    return Refuse(item, "invalid user name before '@'");
  return absl::OkStatus();
}

absl::StatusOr<int> ReadWorkers(absl::string_view item, absl::string_view number) {
  int workers = 0;
  if (!absl::SimpleAtoi(number, &workers) || workers < 1 || workers > kMaxWorkers)
    return Refuse(item, absl::StrCat("the number of a host's workers must be 1 to ", kMaxWorkers));
  return workers;
}

/// Returns the names in `text`: an address in brackets, a name, or several names given as ranges.
absl::StatusOr<std::vector<std::string>> ReadNames(absl::string_view item, absl::string_view text) {
  if (!absl::StartsWith(text, "[")) return ExpandHostlist({text.data(), text.size()});
  const absl::string_view address = text.substr(1, text.size() - 2);
  // The system's parser stops at a zero byte.
  const bool plain = std::all_of(address.begin(), address.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c)) || c == ':' || c == '.';
  });
  if (!plain || !IsIpAddress({address.data(), address.size()}))
    return Refuse(item, "the text in brackets is not an IP address");
  return std::vector<std::string>{std::string(address)};
}

/// Returns the end of the name in "name:8"; a bracket may contain colons.
size_t EndOfName(absl::string_view text) {
  const size_t close = text.rfind(']');
  return std::min(text.size(), text.find(':', close == absl::string_view::npos ? 0 : close));
}

/// Appends the hosts of one item.
absl::Status AddItem(absl::string_view item, int workers, std::vector<Host>* hosts) {
  absl::string_view rest = item;
  Host host = {.workers = workers};
  if (const size_t at = rest.find('@'); at != absl::string_view::npos) {
    MT_RETURN_IF_ERROR(CheckUser(item, rest.substr(0, at)));
    host.user = std::string(rest.substr(0, at));
    rest.remove_prefix(at + 1);
  }
  const size_t end = EndOfName(rest);
  if (end < rest.size()) {
    if (workers != 0) return Refuse(item, "its number of workers is given twice");
    if (absl::StrContains(rest.substr(end + 1), ':') && !absl::StartsWith(rest, "["))
      return Refuse(item, "an IPv6 address must be in brackets: [2001:db8::1]:8");
    MT_ASSIGN_OR_RETURN(host.workers, ReadWorkers(item, rest.substr(end + 1)));
  }
  MT_ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadNames(item, rest.substr(0, end)));
  if (hosts->size() + names.size() > kMaxSshHosts)
    return Refuse(item, absl::StrCat("that makes more than ", kMaxSshHosts, " hosts"));
  for (const std::string& name : names) {
    host.name = name;
    hosts->push_back(host);
  }
  return absl::OkStatus();
}

/// Checks that no host from `from` on is repeated or already in `names`.
absl::Status CheckTwice(const std::vector<Host>& hosts, size_t from, std::set<std::string>* names) {
  for (size_t i = from; i < hosts.size(); ++i) {
    if (!names->insert(hosts[i].name).second)
      return Refuse(hosts[i].name,
                    "this host is named twice; one mtrun on each host starts all of its workers");
  }
  return absl::OkStatus();
}

absl::Status AddLine(absl::string_view line, std::vector<Host>* hosts) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  int workers = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    absl::string_view number = words[i];
    if (!absl::ConsumePrefix(&number, "slots=")) return Refuse(words[i], "only slots=N can follow a host");
    if (workers != 0) return Refuse(words[i], "slots= is given twice");
    MT_ASSIGN_OR_RETURN(workers, ReadWorkers(words[i], number));
  }
  return AddItem(words.front(), workers, hosts);
}

}  // namespace

std::string Destination(const Host& host) {
  return host.user.empty() ? host.name : absl::StrCat(host.user, "@", host.name);
}

absl::StatusOr<std::vector<Host>> ParseHosts(std::string_view text) {
  if (text.size() > kMaxBytes) return Refuse(View(text), "this list is too long");
  std::vector<Host> hosts;
  std::set<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = EndOfHostlistItem(text, begin), before = hosts.size();
    const absl::string_view item = absl::StripAsciiWhitespace(View(text.substr(begin, end - begin)));
    if (item.empty()) return Refuse(View(text), "a host's name is missing");
    MT_RETURN_IF_ERROR(AddItem(item, 0, &hosts));
    MT_RETURN_IF_ERROR(CheckTwice(hosts, before, &names));
    begin = end + 1;
  }
  return hosts;
}

absl::StatusOr<std::vector<Host>> ParseHostfile(std::string_view text) {
  if (text.size() > kMaxBytes) return absl::InvalidArgumentError("it has more than 1 MiB");
  std::vector<Host> hosts;
  std::set<std::string> names;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(View(text), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const size_t before = hosts.size();
    absl::Status read = AddLine(line, &hosts);
    if (read.ok()) read = CheckTwice(hosts, before, &names);
    MT_RETURN_IF_ERROR(Annotate(read, absl::StrCat("line ", number)));
  }
  if (hosts.empty()) return absl::InvalidArgumentError("it names no host");
  return hosts;
}

}  // namespace mtrun::launcher

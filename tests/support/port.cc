#include "tests/support/port.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "base/status_macros.h"

namespace mtrun::support {
namespace {

constexpr int kLowest = 10000, kHighest = 65535;

/// Both ends are included.
struct PortRange {
  int first, last;
  int size() const { return last - first + 1; }
};

/// Returns the larger range outside the kernel's ephemeral ports, or all ports if nothing is outside.
PortRange Candidates() {
  PortRange kernels{32768, 60999};
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> kernels.first >> kernels.last;
  const PortRange below{kLowest, kernels.first - 1}, above{kernels.last + 1, kHighest};
  const PortRange larger = below.size() > above.size() ? below : above;
  return larger.size() > 1000 ? larger : PortRange{kLowest, kHighest};
}

/// Locks the port's file until this process ends; returns an invalid descriptor if another process holds it.
UniqueFd LockFileOf(int port) {
  const std::string folder = absl::StrCat("/tmp/mtrun_test_ports_", getuid());
  mkdir(folder.c_str(), 0700);
  UniqueFd file(open(absl::StrCat(folder, "/", port).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  MT_CHECK(file.valid()) << folder << ": " << port;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) file.Reset();
  return file;
}

/// Returns whether the port is free on every IPv4 address, and on every IPv6 address if there are any.
/// Without SO_REUSEADDR: lingering connections of an earlier owner count.
bool NobodyUses(int port) {
  const UniqueFd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd old_socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in old_address = {};
  old_address.sin_family = AF_INET;
  old_address.sin_port = htons(static_cast<uint16_t>(port));
  if (bind(old_socket.get(), reinterpret_cast<sockaddr*>(&old_address), sizeof old_address) != 0)
    return false;
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  return !socket.valid() || bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

int FreePort() {
  static std::mutex mu;
  static std::vector<UniqueFd> held;
  const std::lock_guard lock(mu);
  const PortRange range = Candidates();
  const int begin = static_cast<int>(RandomBits() % static_cast<uint64_t>(range.size()));
  for (int i = 0; i < range.size(); ++i) {
    const int port = range.first + (begin + i) % range.size();
    UniqueFd file = LockFileOf(port);
    if (!file.valid() || !NobodyUses(port)) continue;
    held.push_back(std::move(file));
    return port;
  }
  MT_CHECK(false) << "every port is in use";
  return 0;
}

int ListeningSockets(pid_t pid) {
  std::set<std::string> listening;  // "socket:[inode]"
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/net/", table));
    for (std::string line; std::getline(file, line);) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.size() > 9 && words[3] == "0A") listening.insert(absl::StrCat("socket:[", words[9], "]"));
    }
  }
  int count = 0;
  std::error_code error;
  for (const auto& fd : std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
    count += listening.contains(std::filesystem::read_symlink(fd.path(), error).string()) ? 1 : 0;
  }
  return count;
}

}  // namespace mtrun::support

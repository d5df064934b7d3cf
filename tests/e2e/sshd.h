// Shared by the end-to-end tests over ssh: a separate sshd on each host of a test's network, with keys,
// configuration and environment in the test's folder, and an mtrun next to them that starts jobs there.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/e2e/launcher.h"
#include "tests/support/network.h"

namespace mtrun::e2e {

/// Hosts "one" and "two" are nodes 1 and 2 under names of ssh's configuration; node 0 is not a host.
class SshTest : public LauncherTest {
 protected:
  static constexpr char kSshd[] = "/usr/sbin/sshd";

  void SetUp() override {
    if (access(kSshd, X_OK) != 0) GTEST_SKIP() << "no sshd here";
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    auto network = support::Network::Make(3);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
    for (const char* key : {"host_key", "user_key"}) {
      Program made({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder_.File(key)});
      ASSERT_EQ(made.Wait(), 0) << made.Text();
    }
    WriteClientConfig();
  }

  /// Writes the client's ssh configuration: the names are defined only there.
  void WriteClientConfig() const {
    std::string known, config;
    const std::string key = support::ReadText(folder_.File("host_key.pub"));
    for (const int node : {1, 2}) {
      absl::StrAppend(&known, "[", network_->Address(node), "]:2222 ", key);
      absl::StrAppend(&config, "Host ", kNames[node], "\n  HostName ", network_->Address(node), "\n");
    }
    absl::StrAppend(&config, "Host *\n  Port 2222\n  User root\n  IdentitiesOnly yes\n  IdentityFile ",
                    folder_.File("user_key"), "\n  UserKnownHostsFile ", folder_.File("known"),
                    "\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n");
    support::WriteText(folder_.File("known"), known);
    support::WriteText(folder_.File("client"), config);
  }

  /// Starts an sshd on that node. Its children carry the test's mark; it does not.
  std::unique_ptr<Program> Sshd(int node, const std::string& more = "") const {
    const std::string config = folder_.File(absl::StrCat("sshd", node));
    const std::string keys = support::ReadText(folder_.File("user_key.pub"));
    support::WriteText(folder_.File("authorized"), keys);
    support::WriteText(
        config, absl::StrCat(more, "\nListenAddress ", network_->Address(node), ":2222\nHostKey ",
                             folder_.File("host_key"), "\nAuthorizedKeysFile ", folder_.File("authorized"),
                             "\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv ",
                             support::Mark::kVariable, "=", mark_.value(), " XDG_STATE_HOME=", folder_.path(),
                             " TMPDIR=", folder_.path(), Sanitizers(), "\n"));
    // Its folder for privilege separation has a fixed path, which may not exist here.
    const std::string script =
        absl::StrCat("mount -t tmpfs none /run && mkdir /run/sshd && exec ", kSshd, " -D -e -f ", config);
    auto sshd = std::make_unique<Program>(network_->On(node, {"unshare", "--mount", "sh", "-c", script}));
    EXPECT_TRUE(sshd->WaitForLine("Server listening")) << sshd->Text();
    return sshd;
  }

  /// Starts mtrun on node 0, which is not one of the hosts.
  std::unique_ptr<Program> Start(const std::vector<std::string>& args) const {
    const std::vector<std::string> ssh = {Mtrun(), "--ssh", "ssh -F " + folder_.File("client")};
    return std::make_unique<Program>(network_->On(0, Words(ssh, args)), Environment(), folder_.path());
  }

  /// Returns the sanitizer settings of this test, for programs started by an sshd.
  static std::string Sanitizers() {
    std::string settings;
    for (const char* name : {"TSAN_OPTIONS", "LSAN_OPTIONS"}) {
      if (const char* value = std::getenv(name); value != nullptr)
        absl::StrAppend(&settings, " ", name, "=", value);
    }
    return settings;
  }

  static constexpr const char* kNames[] = {"", "one", "two"};
  std::unique_ptr<support::Network> network_;
};

}  // namespace mtrun::e2e

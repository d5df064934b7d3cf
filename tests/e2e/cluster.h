// Shared by the end-to-end tests over several nodes: network namespaces, each with an mtrun of cooperative
// toy workers (tests/support/toy_worker.cc).
#pragma once

#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/endpoint.h"
#include "tests/e2e/launcher.h"
#include "tests/support/network.h"

namespace mtrun::e2e {

class NetworkTest : public LauncherTest {
 protected:
  explicit NetworkTest(int nodes = 3, support::Network::Family family = support::Network::Family::kFour)
      : nodes_(nodes), family_(family) {}

  void SetUp() override {
    auto network = support::Network::Make(nodes_, family_);
    if (!network.ok()) GTEST_SKIP() << network.status().message();
    network_ = *std::move(network);
    endpoints_ = {ToText(Endpoint{network_->Address(0)})};
  }

  /// Starts a stand-alone service on node 0; fails the test if it does not start.
  std::unique_ptr<Program> StartService() const {
    auto service =
        std::make_unique<Program>(network_->On(0, {support::BinaryFolder() + "/mtrdzv", "--insecure",
                                                   "--host", network_->Address(0), "--port", "29400"}),
                                  Environment());
    EXPECT_TRUE(service->WaitForLine("serving")) << service->Text();
    return service;
  }

  /// Starts a node with one cooperative worker. A first formation below the largest number comes `last_call`
  /// seconds after that of the least.
  std::unique_ptr<Program> Start(int node, const std::string& nodes, const std::string& conf = "",
                                 const std::string& last_call = "0.1") {
    std::vector<std::string> args = {"--nnodes",
                                     nodes,
                                     "--rdzv_endpoint",
                                     absl::StrJoin(endpoints_, ","),
                                     "--insecure",
                                     "--node_rank",
                                     absl::StrCat(node),
                                     "--rdzv_conf",
                                     absl::StrCat("last_call_timeout=", last_call, conf)};
    for (const std::string& word : toy_) args.push_back(word);
    return std::make_unique<Program>(network_->On(node, Command(args)), Environment());
  }

  /// Runs an ordinary program, whose workers print "with W workers". When told to stop, those of node 0 do,
  /// and the others stop when LetThemStop is called.
  void RunSlowToStop() {
    const std::string script =
        Script("slow.sh", absl::StrCat("trap 'while [ $GROUP_RANK != 0 ] && [ ! -e ", folder_.File("go"),
                                       " ]; do sleep 0.05; done; exit 0' TERM\n",
                                       "echo with $WORLD_SIZE workers\nwhile :; do sleep 0.1; done\n"));
    toy_ = {"--no_python", script};
  }
  void LetThemStop() const { support::WriteText(folder_.File("go"), ""); }
  /// Drains the `host`, one of three nodes that run it; it is gone before the others have stopped.
  void ExpectOthersToGoOnWithout(Program& host, const std::vector<Program*>& others) const {
    ASSERT_TRUE(host.WaitForLine("with 3 workers", kSoon)) << host.Text();
    for (Program* mtrun : others) ASSERT_TRUE(mtrun->WaitForLine("with 3 workers", kSoon)) << mtrun->Text();
    host.Signal(SIGTERM);
    for (Program* mtrun : others)
      ASSERT_TRUE(mtrun->WaitForLine("generation 1 ended", kSoon)) << mtrun->Text();
    ASSERT_TRUE(host.Wait(kSoon).has_value()) << host.Text();
    LetThemStop();
    for (Program* mtrun : others) EXPECT_TRUE(mtrun->WaitForLine("with 2 workers", kSoon)) << mtrun->Text();
  }

  static testing::AssertionResult Met(Program& mtrun, int generation, int world) {
    const std::string text = absl::StrCat("in generation ", generation, ": rank");
    const auto line = mtrun.WaitForLine(text, kSoon);
    if (!line) return testing::AssertionFailure() << mtrun.Text();
    if (line->find(absl::StrCat(" of ", world, " ")) == std::string::npos)
      return testing::AssertionFailure() << *line << "\n" << mtrun.Text();
    return testing::AssertionSuccess();
  }

  static pid_t PidIn(Program& mtrun, int generation) {
    const auto line = mtrun.WaitForLine(absl::StrCat("in generation ", generation, ":"), Seconds(0));
    if (!line) return -1;
    const std::vector<std::string> words = absl::StrSplit(line->substr(line->find("pid ")), ' ');
    return static_cast<pid_t>(std::stoi(words.at(1)));
  }

  /// Runs `mtrun --evict NAME` on that node, like an operator; returns its output and exit status.
  std::pair<std::string, int> Evict(int on, const std::string& name) const {
    return Evict(on, name, absl::StrJoin(endpoints_, ","));
  }
  std::pair<std::string, int> Evict(int on, const std::string& name, const std::string& where) const {
    Program mtrun(network_->On(on, {Mtrun(), "--evict", name, where, "--insecure"}), Environment());
    const int status = mtrun.Wait().value_or(-1);
    return {mtrun.Text(), status};
  }

  /// Returns the endpoints that a holding node names in a line "... mtrun --evict NODE ENDPOINTS".
  static std::string Advised(const std::string& line) { return line.substr(line.rfind(' ') + 1); }

  static pid_t AgentOf(const Program& mtrun) { return ChildOf(ChildOf(mtrun.pid())); }

  const int nodes_;
  const support::Network::Family family_;
  std::unique_ptr<support::Network> network_;
  std::vector<std::string> endpoints_;
  std::vector<std::string> toy_ = {support::BinaryFolder() + "/../tests/toy_worker", "cooperative"};
};

}  // namespace mtrun::e2e

// Tests what the page shows of gone nodes, from the log lines of the service's own state machine.
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "page/history.h"
#include "page/state_json.h"
#include "rendezvous/job/state_machine.h"

namespace mtrun::page {
namespace {

using nlohmann::json;
using rendezvous::AgentEvent;
using std::chrono::milliseconds;

/// A job of hosts whose names have a common prefix, and a page that shows it.
class GoneNodesTest : public testing::Test {
 protected:
  static std::string IdOf(const std::string& host) { return host + "-7-abc"; }

  void Begin(int min_nodes, const std::vector<std::string>& hosts) {
    rendezvous::JobSettings settings;
    settings.job_id = "job";
    settings.min_nodes = min_nodes;
    settings.max_nodes = static_cast<int>(hosts.size());
    rendezvous::JobMachine::Options options;
    options.seed = 7;
    options.recovery_window = Duration::zero();
    job_.emplace(settings, options);
    for (const std::string& host : hosts) {
      Step({IdOf(host), rendezvous::StreamOpened{settings, {}}});
      Offer(host);
    }
    Look();
  }
  void Say(const std::string& host, AgentEvent event) {
    Step({IdOf(host), rendezvous::AgentSaid{std::move(event), {}}});
  }
  void Offer(const std::string& host) {
    rendezvous::Offer offer;
    offer.node_id = IdOf(host);
    offer.host = host;
    offer.address = "10.0.0.1";
    Say(host, rendezvous::OfferSent{offer, job_->View(now_).generation});
  }
  /// Kills the mtrun of the host.
  void Kill(const std::string& host) {
    Step({IdOf(host), rendezvous::StreamClosed{{.how = rendezvous::NodeLost::How::kStreamEnded}}});
    now_ += milliseconds(200);
    Step({"", rendezvous::Tick{}});
  }
  void Look() {
    state_.status.jobs = {job_->View(now_)};
    history_.OnState(state_, now_);
  }
  json NodeOf(const std::string& host) const {
    const json made = StateJson(state_, history_, now_);
    for (const json& node : made["jobs"][0]["nodes"]) {
      if (node["host"] == host) return node;
    }
    return nullptr;
  }

  TimePoint now_{std::chrono::hours(1)};

 private:
  void Step(const rendezvous::Event& event) {
    for (const rendezvous::Effect& effect : job_->Step(event, now_)) {
      if (const auto* line = std::get_if<rendezvous::LogLine>(&effect))
        state_.happenings.push_back({"job", ++lines_, 0, line->text, line->cause});
    }
  }

  std::optional<rendezvous::JobMachine> job_;
  rendezvous::WatchedState state_;
  History history_;
  int64_t lines_ = 0;
};

TEST_F(GoneNodesTest, NoteOfALostNodeIsAboutThatNode) {
  Begin(1, {"node1", "node2", "node10"});
  Kill("node1");
  Offer("node2");
  Offer("node10");
  Look();
  EXPECT_EQ(NodeOf("node10")["state"], "member");
  EXPECT_EQ(NodeOf("node1")["state"], "lost");
  EXPECT_EQ(NodeOf("node1")["note"], "node1 is lost: its stream ended");
}

TEST_F(GoneNodesTest, LeavingNodeDoesNotTurnALostNodeIntoLeft) {
  Begin(2, {"node1", "node2", "node10"});
  Kill("node1");
  using Why = rendezvous::NodeLeft::Why;
  Say("node10", rendezvous::Leaving{{.why = Why::kSignal, .host = "node10", .signal = SIGTERM}});
  Look();
  EXPECT_EQ(NodeOf("node10")["state"], "left");
  EXPECT_EQ(NodeOf("node10")["note"], "node10 leaves: node10 received SIGTERM");
  EXPECT_EQ(NodeOf("node1")["state"], "lost");
  EXPECT_EQ(NodeOf("node1")["level"], "bad");
  now_ += 2 * History::kGoneShown;
  Look();
  EXPECT_EQ(NodeOf("node1")["state"], "lost") << "the job waits for it, and a button can evict it";
  EXPECT_EQ(NodeOf("node10"), nullptr);
}

}  // namespace
}  // namespace mtrun::page

// Golden scripts (tests/support/golden_script.h): testdata/*.txt.
//   job min=2 max=3 [restarts=1] [refund=100] [recovery=3s] [fence_timeout=30s] [cold_start_wait=60s]
//                                         begins the world (first command)
//   job ... ordinary                      the nodes run an ordinary program, and have presence ports
//   job ... endpoints=2 [on_nodes]        several services (on node1 and so on)
//   new_service [recovery=3s] [run=2]     run: another one under the same id
//   open N [seen=2] [max=5]               N knows the last service's run if it has seen a generation of it
//   open N knows=M                        N also reports the generation that M was assigned last
//   hold N [workers=2]                    offers its last assigned generation as still running
//   offer N... [workers=2] [rank=0] [late] [ends_step] [leaves]
//   unreached N peer=0                    a worker of N reaches no worker of that rank
//   beat N [stuck=12s]   break N   steps N at=100   fail N [exit=3|signal=9] [generation=1]
//   fail N generation=held [rank=1]       for the generation that an earlier service assigned to N
//   finish N... [final]   close N   leave N   silence N   wake N   drain N   evict N (by an operator)
//   stop [checkpoint]   set N key value   wait N key   get N key   advance 1.5s   stall 10s   state
//   look self|silent|gone|without[:ended]|with[:GENERATION[:authority|:another]]... [dead=N] [alive=N]
//       services in the job's order; ended: this run; another: members of another run have come there
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/rendezvous/cluster_simulation.h"
#include "tests/support/golden_script.h"

namespace mtrun::rendezvous {
namespace {

using Lines = std::vector<std::string>;
using support::ScriptCommand;

Duration ParseDuration(std::string text) {
  double number = 0;
  if (absl::EndsWith(text, "s")) text.pop_back();
  EXPECT_TRUE(absl::SimpleAtod(text, &number)) << text;
  return FromSeconds(number);
}

class Interpreter {
 public:
  Lines Run(const std::string& line) {
    const ScriptCommand c(line);
    if (c.name == "job") return Begin(c);
    if (c.name == "new_service") return NewService(c);
    EXPECT_TRUE(world_) << "the first command must be `job`";
    ClusterSimulation& w = *world_;
    if (c.name == "advance") return w.Advance(ParseDuration(c.words.at(0)));
    if (c.name == "stall") return w.Stall(ParseDuration(c.words.at(0)));
    if (c.name == "stop") return w.Control({.what = StopCall{c.Has("checkpoint")}});
    if (c.name == "look") return w.Look(ParseLook(c));
    if (c.name == "state") return absl::StrSplit(w.Text(), '\n', absl::SkipEmpty());
    Lines lines;
    for (const std::string& node : c.words) {
      const Lines more = RunOn(c, node);
      lines.insert(lines.end(), more.begin(), more.end());
      if (c.name == "set" || c.name == "wait" || c.name == "get") break;
      if (c.Has("final") || c.Has("late") || c.Has("early")) break;
    }
    return lines;
  }
  const ClusterSimulation& world() const { return *world_; }
  /// The number of offers whose membership the service knew.
  int left_out() const { return left_out_; }

 private:
  Lines Begin(const ScriptCommand& c) {
    settings_.job_id = "job";
    settings_.min_nodes = c.Int("min", 1);
    settings_.max_nodes = c.Int("max", settings_.min_nodes);
    settings_.max_restarts = c.Int("restarts", 0);
    for (int i = 1; i <= c.Int("endpoints", 0); ++i)
      settings_.endpoints.push_back(absl::StrCat(c.Has("on_nodes") ? "node" : "service", i));
    settings_.takeover_any = c.Has("takeover_any");
    settings_.min_nodes_timeout = ParseDuration(c.Text("min_nodes_timeout", "0s"));
    settings_.refund_steps = c.Int("refund", 0);
    settings_.cold_start_wait = ParseDuration(c.Text("cold_start_wait", "0s"));
    settings_.join_timeout = ParseDuration(c.Text("join_timeout", "600s"));
    settings_.fence_timeout = ParseDuration(c.Text("fence_timeout", "30s"));
    settings_.ordinary_interval = ParseDuration(c.Text("keep_alive", "5s"));
    ordinary_ = c.Has("ordinary");
    return NewService(c);
  }
  Lines NewService(const ScriptCommand& c) {
    if (world_) last_ = world_->assignments();
    world_ =
        std::make_unique<ClusterSimulation>(settings_, ParseDuration(c.Text("recovery", "0s")),
                                            c.Has("host_begins"), static_cast<uint64_t>(c.Int("run", 1)));
    if (ordinary_) world_->RunOrdinary();
    return {};
  }
  ProbeResult ParseLook(const ScriptCommand& c) const {
    using State = PeerService::State;
    static const std::map<std::string, State> states = {{"silent", State::kSilent},
                                                        {"gone", State::kGone},
                                                        {"self", State::kSelf},
                                                        {"without", State::kWithoutJob},
                                                        {"with", State::kWithJob}};
    ProbeResult looked;
    for (const std::string& word : c.words) {
      const std::vector<std::string> parts = absl::StrSplit(word, ':');
      PeerService peer;
      peer.endpoint = settings_.endpoints.at(looked.peers.size());
      peer.state = states.at(parts.at(0));
      const std::string generation = parts.size() > 1 ? parts[1] : "";
      if (generation == "same") {
        peer.generation = world_->generation();
      } else if (generation == "ended") {
        const bool success = parts.size() > 2 && parts[2] == "success";
        peer.ended = {{world_->machine().incarnation(), world_->generation().number, success}};
      } else if (!generation.empty()) {
        peer.generation = {std::stoull(generation), 1};
      }
      peer.authority = parts.size() > 2 && generation != "ended";
      if (peer.authority && parts[2] == "another") {
        peer.incarnation = world_->machine().incarnation() + 1;
        peer.proof = RunProof::kMembers;
      }
      looked.peers.push_back(peer);
    }
    if (c.options.contains("dead")) looked.dead.insert(c.options.at("dead"));
    if (c.options.contains("alive")) looked.alive.insert(c.options.at("alive"));
    return looked;
  }
  Lines RunOn(const ScriptCommand& c, const std::string& node) {
    ClusterSimulation& w = *world_;
    if (c.name == "open") return Open(c, node);
    if (c.name == "close") return w.Close(node);
    if (c.name == "beat") return w.Beat(node, ParseDuration(c.Text("stuck", "0s")));
    if (c.name == "offer") {
      if (c.Has("late")) return w.StaleOfferFrom(node);
      const int rank = c.Int("rank", -1);
      return w.OfferFrom(node, c.Int("workers", 1), rank < 0 ? std::nullopt : std::optional<int>(rank),
                         c.Has("ends_step"), c.Has("leaves"));
    }
    if (c.name == "hold") return Hold(node, c.Int("workers", 1));
    if (c.name == "fail") return Fail(c, node);
    if (c.name == "break") return w.Break(node, c.Has("unconnected"));
    if (c.name == "unreached")
      return w.Say(node, PeerUnreached{w.generation(), c.Int("rank", 0), c.Int("peer", 0)});
    if (c.name == "steps") return w.Say(node, StepsCommitted{w.generation(), c.Int("at", 0)});
    if (c.name == "finish") return w.Finish(node, c.Has("final"));
    if (c.name == "leave") return w.Leave(node);
    if (c.name == "drain") return w.Control({.what = DrainCall{node}});
    if (c.name == "evict") return w.Evict(node);
    if (c.name == "set") return w.Set(node, c.words.at(1), c.words.at(2));
    if (c.name == "wait") return w.Wait(node, c.words.at(1));
    if (c.name == "get") return w.Say(node, StoreRead{w.generation(), 1000, {c.words.at(1)}, false});
    if (c.name == "silence") return w.Silence(node), Lines();
    if (c.name == "wake") return w.Wake(node), Lines();
    ADD_FAILURE() << "unknown command " << c.name;
    return {};
  }
  Lines Open(const ScriptCommand& c, const std::string& node) {
    if (c.options.contains("max")) {
      JobSettings other = settings_;
      other.max_nodes = c.Int("max", 0);
      return world_->OpenWith(node, other);
    }
    std::optional<Assignment> last;
    if (const auto of = c.options.find("knows"); of != c.options.end()) last = last_.at(of->second);
    if (c.options.contains("seen") && last_.contains(node)) world_->Remember(node, last_.at(node));
    return world_->Open(node, Generation{static_cast<uint64_t>(c.Int("seen", 0)), 1}, c.Int("restarts", 0),
                        c.Int("refunded", 0), last);
  }
  Lines Hold(const std::string& node, int workers) {
    const auto& assignments = world_->assignments().contains(node) ? world_->assignments() : last_;
    const Assignment held = assignments.at(node);
    world_->Remember(node, held);
    Offer offer;
    offer.node_id = node;
    offer.host = node;
    offer.workers = workers;
    offer.holds = held.generation;
    // Memberships known to the service are left out of offers (codec.h), which changes nothing.
    ClusterSimulation without = *world_;
    const auto& known = world_->machine().last_generation();
    const bool runs = world_->machine().generation().running() && known->generation == held.generation &&
                      known->incarnation == held.incarnation;
    const Lines lines = world_->Say(node, OfferSent{offer}, held);
    if (runs) {
      ++left_out_;
      EXPECT_EQ(without.Say(node, OfferSent{offer}), lines);
      EXPECT_TRUE(without.machine() == world_->machine()) << without.Text() << world_->Text();
    }
    return lines;
  }
  Lines Fail(const ScriptCommand& c, const std::string& node) {
    if (c.Text("generation", "") == "held") {
      WorkerFailure failure;
      failure.host = node;
      failure.rank = c.Int("rank", 0);
      failure.exit_code = 1;
      return world_->Say(node, WorkerFailed{last_.at(node).generation, failure});
    }
    if (!c.options.contains("generation"))
      return world_->Fail(node, c.Int("exit", 1), c.Int("signal", 0), c.Has("early"), c.Int("at", 0));
    const auto number = static_cast<uint64_t>(c.Int("generation", 0));
    WorkerFailure failure;
    failure.host = node;
    failure.rank = number == 0 ? -1 : 0;
    failure.exit_code = c.Int("exit", 0);
    return world_->Say(node, WorkerFailed{Generation{number, number == 0 ? 0u : 1u}, failure});
  }

  JobSettings settings_;
  std::map<std::string, Assignment> last_;
  std::unique_ptr<ClusterSimulation> world_;
  bool ordinary_ = false;
  int left_out_ = 0;
};

std::string Play(const std::string& script, int* left_out) {
  Interpreter interpreter;
  return support::ReplayTraces(script, [&](const std::string& line) {
    const int before = interpreter.left_out();
    Lines trace = interpreter.Run(line);
    EXPECT_EQ(interpreter.world().broken().value_or(""), "") << line;
    *left_out += interpreter.left_out() - before;
    return trace;
  });
}

TEST(StateMachineScripts, BehaveAsWritten) {
  int left_out = 0;
  support::ExpectScripts("tests/rendezvous/testdata", "", 10,
                         [&](const std::string& script) { return Play(script, &left_out); });
  EXPECT_GT(left_out, 5);
}

}  // namespace
}  // namespace mtrun::rendezvous

// Golden scripts: testdata/*.txt hold commands, `----`, and the expected trace. MTRUN_REWRITE=1 writes what
// happens instead.
//   job min=2 max=3 [restarts=1] [refund=100] [recovery=3s]   begins the world (first command)
//   open N [seen=2] [max=5]      offer N... [workers=2] [rank=0] [late]   close N    leave N    beat
//   N [stuck=12s] break N    steps N at=100    fail N [exit=3|signal=9] [generation=1]      finish N...
//   [final]  silence N   wake N set N key value    wait N key    get N key   hold N [workers=2] (offers the
//   last generation it was assigned as still running) new_service [recovery=3s]    advance 1.5s    stall 10s
//   state look self|silent|gone|without|with[:GENERATION[:authority]]... [dead=N] (services in the job's
//   order)
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/posix.h"
#include "gtest/gtest.h"
#include "tests/rendezvous/cluster_simulation.h"

namespace mtrun::rendezvous {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

Duration ParseDuration(std::string text) {
  double number = 0;
  if (absl::EndsWith(text, "s")) text.pop_back();
  EXPECT_TRUE(absl::SimpleAtod(text, &number)) << text;
  return FromSeconds(number);
}

/// Words of a command: positional ones and key=value options.
struct Command {
  std::string name;
  std::vector<std::string> words;
  std::map<std::string, std::string> options;

  explicit Command(const std::string& line) {
    const std::vector<std::string> parts = absl::StrSplit(line, ' ', absl::SkipEmpty());
    for (const std::string& part : parts) {
      const size_t equals = part.find('=');
      if (name.empty()) {
        name = part;
      } else if (equals != std::string::npos) {
        options[part.substr(0, equals)] = part.substr(equals + 1);
      } else {
        words.push_back(part);
      }
    }
  }
  bool Has(const std::string& word) const {
    return options.contains(word) || std::count(words.begin(), words.end(), word) > 0;
  }
  int Int(const std::string& key, int otherwise) const {
    int value = otherwise;
    const auto it = options.find(key);
    const bool good = it == options.end() || absl::SimpleAtoi(it->second, &value);
    EXPECT_TRUE(good) << key;
    return value;
  }
  Duration Time(const std::string& key, const std::string& otherwise) const {
    const auto it = options.find(key);
    return ParseDuration(it != options.end() ? it->second : otherwise);
  }
};

class Interpreter {
 public:
  Lines Run(const std::string& line) {
    const Command c(line);
    if (c.name == "job") return Begin(c);
    if (c.name == "new_service") return NewService(c);
    EXPECT_TRUE(world_) << "the first command must be `job`";
    ClusterSimulation& w = *world_;
    if (c.name == "advance") return w.Advance(ParseDuration(c.words.at(0)));
    if (c.name == "stall") return w.Stall(ParseDuration(c.words.at(0)));
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

 private:
  Lines Begin(const Command& c) {
    settings_.job_id = "job";
    settings_.min_nodes = c.Int("min", 1);
    settings_.max_nodes = c.Int("max", settings_.min_nodes);
    settings_.max_restarts = c.Int("restarts", 0);
    for (int i = 1; i <= c.Int("endpoints", 0); ++i)
      settings_.endpoints.push_back(absl::StrCat("service", i));
    settings_.takeover_any = c.Has("takeover_any");
    settings_.min_nodes_timeout = c.Time("min_nodes_timeout", "0s");
    settings_.refund_steps = c.Int("refund", 0);
    settings_.join_timeout = c.Time("join_timeout", "600s");
    return NewService(c);
  }
  Lines NewService(const Command& c) {
    if (world_) last_ = world_->assignments();
    world_ = std::make_unique<ClusterSimulation>(settings_, c.Time("recovery", "0s"), c.Has("host_begins"));
    return {};
  }
  ProbeResult ParseLook(const Command& c) const {
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
      if (parts.size() > 1 && parts[1] == "same") peer.generation = world_->generation();
      if (parts.size() > 1 && parts[1] != "same") peer.generation = {std::stoull(parts[1]), 1};
      peer.authority = parts.size() > 2;
      looked.peers.push_back(peer);
    }
    if (c.options.contains("dead")) looked.dead.insert(c.options.at("dead"));
    return looked;
  }
  Lines RunOn(const Command& c, const std::string& node) {
    ClusterSimulation& w = *world_;
    if (c.name == "open") return Open(c, node);
    if (c.name == "close") return w.Close(node);
    if (c.name == "beat") return w.Beat(node, c.Time("stuck", "0s"));
    if (c.name == "offer") {
      if (c.Has("late")) return w.StaleOfferFrom(node);
      const int rank = c.Int("rank", -1);
      return w.OfferFrom(node, c.Int("workers", 1), rank < 0 ? std::nullopt : std::optional<int>(rank));
    }
    if (c.name == "hold") return Hold(node, c.Int("workers", 1));
    if (c.name == "fail") return Fail(c, node);
    if (c.name == "break") return w.Break(node);
    if (c.name == "steps") return w.Say(node, StepsCommitted{w.generation(), c.Int("at", 0)});
    if (c.name == "finish") return w.Finish(node, c.Has("final"));
    if (c.name == "leave") return w.Leave(node);
    if (c.name == "set") return w.Set(node, c.words.at(1), c.words.at(2));
    if (c.name == "wait") return w.Wait(node, c.words.at(1));
    if (c.name == "get") return w.Say(node, StoreRead{w.generation(), 1000, {c.words.at(1)}, false});
    if (c.name == "silence") return w.Silence(node), Lines();
    if (c.name == "wake") return w.Wake(node), Lines();
    ADD_FAILURE() << "unknown command " << c.name;
    return {};
  }
  Lines Open(const Command& c, const std::string& node) {
    if (c.options.contains("max")) {
      JobSettings other = settings_;
      other.max_nodes = c.Int("max", 0);
      return world_->OpenWith(node, other);
    }
    return world_->Open(node, Generation{static_cast<uint64_t>(c.Int("seen", 0)), 1}, c.Int("restarts", 0),
                        c.Int("refunded", 0));
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
    return world_->Say(node, OfferSent{offer}, held);
  }
  Lines Fail(const Command& c, const std::string& node) {
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
};

std::string Play(const std::string& script) {
  Interpreter interpreter;
  std::string output;
  bool in_trace = false;
  for (const absl::string_view view : absl::StrSplit(absl::StripSuffix(script, "\n"), '\n')) {
    const std::string line(view);
    if (line == "----") {
      in_trace = true;
      continue;
    }
    if (in_trace && !line.empty()) continue;  // the trace is written again
    in_trace = false;
    absl::StrAppend(&output, line, "\n");
    if (line.empty() || line[0] == '#') continue;
    const Lines trace = interpreter.Run(line);
    if (!trace.empty()) absl::StrAppend(&output, "----\n", absl::StrJoin(trace, "\n"), "\n");
    EXPECT_EQ(interpreter.world().broken().value_or(""), "") << line;
  }
  return output;
}

std::vector<fs::path> Scripts() {
  const char* source = std::getenv("MT_SOURCE_DIR");
  std::vector<fs::path> scripts;
  if (source == nullptr) return scripts;
  for (const auto& entry : fs::directory_iterator(fs::path(source) / "tests/rendezvous/testdata")) {
    if (entry.path().extension() == ".txt") scripts.push_back(entry.path());
  }
  std::sort(scripts.begin(), scripts.end());
  return scripts;
}

TEST(StateMachineScripts, BehaveAsWritten) {
  const std::vector<fs::path> scripts = Scripts();
  ASSERT_GE(scripts.size(), 10u) << "set MT_SOURCE_DIR to the root of the sources";
  const bool rewrite = std::getenv("MTRUN_REWRITE") != nullptr;
  for (const fs::path& path : scripts) {
    SCOPED_TRACE(path.filename().string());
    const auto script = ReadFile(path.string());
    ASSERT_TRUE(script.ok()) << script.status();
    const std::string output = Play(*script);
    if (rewrite) {
      std::ofstream(path) << output;
    } else {
      EXPECT_EQ(output, *script);
    }
  }
}

}  // namespace
}  // namespace mtrun::rendezvous

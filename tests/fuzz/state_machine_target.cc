#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"
#include "tests/rendezvous/cluster_simulation.h"

namespace mtrun::fuzz {
namespace {

using namespace rendezvous;  // NOLINT: the code under test

constexpr int kMaxEvents = 200;

/// Bytes as a sequence of small decisions; zeros after the end.
class Decisions {
 public:
  explicit Decisions(std::string_view bytes) : bytes_(bytes) {}
  bool more() const { return !bytes_.empty(); }
  int Take(int choices) {
    if (bytes_.empty()) return 0;
    const int byte = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte % choices;
  }

 private:
  std::string_view bytes_;
};

JobSettings TakeSettings(Decisions& decide) {
  JobSettings settings;
  settings.job_id = "job";
  settings.min_nodes = 1 + decide.Take(3);
  settings.max_nodes = settings.min_nodes + decide.Take(3);
  settings.max_restarts = decide.Take(4);
  settings.refund_steps = decide.Take(3);
  settings.min_nodes_timeout = std::chrono::seconds(decide.Take(3));
  const int last = decide.Take(240);
  settings.join_timeout = std::chrono::seconds(1 + last % 20);
  for (int i = 0; last >= 200 && i < last / 20 - 8; ++i)
    settings.endpoints.push_back(absl::StrCat("service", i));
  return settings;
}

/// Returns the answers of the job's other services; the asking service is at any position among them.
ProbeResult TakeProbe(const JobSettings& settings, Decisions& decide) {
  ProbeResult result;
  const int self = decide.Take(static_cast<int>(settings.endpoints.size()));
  for (const std::string& endpoint : settings.endpoints) {
    PeerService peer;
    peer.endpoint = endpoint;
    if (static_cast<int>(result.peers.size()) == self) {
      peer.state = PeerService::State::kSelf;
    } else {
      constexpr PeerService::State kOthers[] = {PeerService::State::kGone, PeerService::State::kWithoutJob,
                                                PeerService::State::kSilent, PeerService::State::kWithJob};
      peer.state = kOthers[decide.Take(4)];
      if (peer.state == PeerService::State::kWithJob)
        peer.generation.number = static_cast<uint64_t>(decide.Take(6));
      peer.authority = peer.generation.number > 0 && decide.Take(2) == 0;
    }
    result.peers.push_back(peer);
  }
  if (decide.Take(3) == 0) result.dead.insert(absl::StrCat("node", decide.Take(settings.max_nodes + 2)));
  return result;
}

// One statement per argument, in this order: compilers evaluate a call's arguments in different orders, and
// an input must mean the same schedule everywhere.
void OfferOf(ClusterSimulation& world, const std::string& node, Decisions& decide) {
  const int workers = decide.Take(3);
  const bool ranked = decide.Take(4) == 0;
  const std::optional<int> rank = ranked ? std::optional(decide.Take(4)) : std::nullopt;
  const bool ends_step = decide.Take(4) == 0;
  world.OfferFrom(node, workers, rank, ends_step);
}

void FailOf(ClusterSimulation& world, const std::string& node, Decisions& decide) {
  const int exit_code = decide.Take(4), signal = decide.Take(3) == 0 ? 9 : 0;
  const bool early = decide.Take(2) == 0;
  world.Fail(node, exit_code, signal, early, decide.Take(8));
}

void OpenOf(ClusterSimulation& world, const std::string& node, Decisions& decide) {
  const auto seen = static_cast<uint64_t>(decide.Take(6));
  const int restarts = decide.Take(4), refunded = decide.Take(2);
  world.Open(node, Generation{seen, 1}, restarts, refunded);
}

void Act(ClusterSimulation& world, const JobSettings& settings, const std::string& node, Decisions& decide) {
  switch (decide.Take(22)) {
    case 0:
      world.Open(node);
      break;
    case 1:
    case 2:
      OfferOf(world, node, decide);
      break;
    case 3:
      world.StaleOfferFrom(node);
      break;
    case 4:
      world.Close(node);
      break;
    case 5:
      FailOf(world, node, decide);
      break;
    case 6:
      world.Break(node);
      break;
    case 7:
      world.Finish(node, decide.Take(3) == 0);
      break;
    case 8:
      world.Leave(node);
      break;
    case 9:
      world.Wait(node, absl::StrCat("key", decide.Take(2)));
      break;
    case 10:
      world.Set(node, absl::StrCat("key", decide.Take(2)), "value");
      break;
    case 11:
      world.Say(node, StepsCommitted{world.generation(), decide.Take(256)});
      break;
    case 12:
      world.Silence(node);
      break;
    case 13:
      world.Wake(node);
      break;
    case 14:
      world.Beat(node);
      break;
    case 15:
      world.TickAtDeadline();
      break;
    case 16:
      world.Stall(std::chrono::milliseconds(20 * decide.Take(256)));
      break;
    case 17:
      world.Say(node, Leaving{decide.Take(3) == 0 ? "SIGTERM" : "a person stopped it"});
      break;
    case 18:
      OpenOf(world, node, decide);
      break;
    case 19:
      if (!settings.endpoints.empty()) {
        world.Look(TakeProbe(settings, decide));
        break;
      }
      [[fallthrough]];
    default:
      world.Advance(std::chrono::milliseconds(8 * decide.Take(256)));
      break;
  }
}

}  // namespace

void FuzzStateMachine(std::string_view bytes) {
  Decisions decide(bytes);
  const JobSettings settings = TakeSettings(decide);
  ClusterSimulation world(settings);
  for (int i = 0; i < kMaxEvents && decide.more(); ++i) {
    Act(world, settings, absl::StrCat("node", decide.Take(settings.max_nodes + 2)), decide);
    MT_HOLDS(!world.broken()) << world.broken().value_or("");
    if (world.machine().Gone()) world = ClusterSimulation(settings);  // like the service
  }
}

}  // namespace mtrun::fuzz

#include "tests/rendezvous/actions.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {
namespace {

using Lines = std::vector<std::string>;

Lines Joined(Lines first, const Lines& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Offer OfferOf(const std::string& node) {
  Offer offer;
  offer.node_id = offer.host = node;
  offer.address = absl::StrCat("10.0.0.", node.substr(node.size() - 1));
  offer.master_port = 40000;
  return offer;
}

/// True if the node is known only from others, so that it cannot send anything.
bool IsExpected(const ClusterSimulation& world, const std::string& node) {
  for (const NodeView& view : world.machine().View(world.now()).nodes) {
    if (view.node_id == node) return absl::EndsWith(view.state, ", expected");
  }
  return false;
}

/// Makes an action that an agent performs over its stream.
Action Of(const std::string& node, const std::string& what, std::function<Lines(ClusterSimulation&)> act) {
  return {absl::StrCat(what, " ", node),
          [node, act](ClusterSimulation& w) { return IsExpected(w, node) ? Lines() : act(w); }};
}

/// An agent never returns to an older generation.
bool HasNewer(const ClusterSimulation& world, const std::string& node, const Assignment& held) {
  const auto assigned = world.assignments().find(node);
  return assigned != world.assignments().end() && assigned->second.generation > held.generation;
}

Lines OpenHolding(ClusterSimulation& world, const std::string& node, const Assignment& held) {
  world.Remember(node, held);
  return world.Open(node, held.generation);
}

}  // namespace

JobSettings Settings(int min_nodes, int max_nodes, int max_restarts) {
  JobSettings settings;
  settings.job_id = "job";
  settings.min_nodes = min_nodes;
  settings.max_nodes = max_nodes;
  settings.max_restarts = max_restarts;
  return settings;
}

std::vector<std::string> Services(int count) {
  std::vector<std::string> services;
  for (int i = 1; i <= count; ++i) services.push_back(absl::StrCat("service", i));
  return services;
}

ClusterSimulation RunningJob(const JobSettings& settings, const std::vector<std::string>& nodes,
                             bool ordinary) {
  ClusterSimulation world(settings);
  if (ordinary) world.RunOrdinary();
  for (const std::string& node : nodes) world.Open(node), world.OfferFrom(node);
  if (world.machine().View(world.now()).phase == "forming") world.Advance(settings.last_call);
  return world;
}

std::map<std::string, Assignment> HeldBy(const std::vector<std::string>& nodes, uint64_t number,
                                         uint64_t incarnation) {
  std::vector<Offer> offers;
  for (const std::string& node : nodes) offers.push_back(OfferOf(node));
  Assignment assignment = MakeAssignment(Generation{number, number}, offers, 0);
  assignment.incarnation = incarnation;
  std::map<std::string, Assignment> held;
  for (const std::string& node : nodes) held[node] = assignment;
  return held;
}

Action Open(const std::string& node) {
  return {"open " + node, [=](ClusterSimulation& w) { return w.Open(node); }};
}

Action CloseStream(const std::string& node) {
  return Of(node, "close", [=](ClusterSimulation& w) { return w.Close(node); });
}

Action OfferAgain(const std::string& node) {
  return Of(node, "offer", [=](ClusterSimulation& w) { return w.OfferFrom(node); });
}

Action OfferLate(const std::string& node) {
  return Of(node, "late offer", [=](ClusterSimulation& w) { return w.StaleOfferFrom(node); });
}

Action Arrive(const std::string& node) {
  return {"arrive " + node, [=](ClusterSimulation& w) { return Joined(w.Open(node), w.OfferFrom(node)); }};
}

Action Return(const std::string& node, const std::map<std::string, Assignment>& held) {
  const Assignment own = held.at(node);
  return {absl::StrCat("return ", node, " with ", own.generation.number), [=](ClusterSimulation& w) -> Lines {
            if (HasNewer(w, node, own)) return Lines();
            const Lines opened = OpenHolding(w, node, own);
            Offer offer = OfferOf(node);
            offer.holds = own.generation;
            return Joined(opened, w.Say(node, OfferSent{offer}, own));
          }};
}

Action ReportBefore(const std::string& node, const std::map<std::string, Assignment>& held) {
  const Assignment own = held.at(node);
  return {absl::StrCat("early report of ", node), [=](ClusterSimulation& w) -> Lines {
            if (HasNewer(w, node, own)) return Lines();
            const Lines opened = OpenHolding(w, node, own);
            return Joined(opened, w.Say(node, WorkersFinished{own.generation, false}));
          }};
}

Action Leave(const std::string& node) {
  return Of(node, "leave", [=](ClusterSimulation& w) { return w.Leave(node); });
}

Action EvictNode(const std::string& node) {
  return {"evict " + node, [=](ClusterSimulation& w) { return w.Evict(node); }};
}

Action DrainNode(const std::string& node) {
  return {"drain " + node, [=](ClusterSimulation& w) { return w.Control({.what = DrainCall{node}}); }};
}

Action StopJob(bool checkpoint) {
  return {checkpoint ? "stop with a checkpoint" : "stop",
          [=](ClusterSimulation& w) { return w.Control({.what = StopCall{checkpoint}}); }};
}

Action Fail(const std::string& node) {
  return Of(node, "fail", [=](ClusterSimulation& w) { return w.Fail(node); });
}

Action FailEarly(const std::string& node) {
  return Of(node, "fail early", [=](ClusterSimulation& w) { return w.Fail(node, 1, 0, /*early=*/true); });
}

Action FailForSettings(const std::string& node) {
  return Of(node, "wrong settings", [=](ClusterSimulation& w) { return w.Fail(node, kWrongSettingsStatus); });
}

Action Break(const std::string& node) {
  return Of(node, "break", [=](ClusterSimulation& w) { return w.Break(node); });
}

Action Finish(const std::string& node) {
  return Of(node, "finish", [=](ClusterSimulation& w) { return w.Finish(node); });
}

Action Wait(const std::string& node) {
  return Of(node, "wait", [=](ClusterSimulation& w) {
    return w.Say(node, StoreRead{w.generation(), 1, {"key"}, true});
  });
}

Action Set(const std::string& node) {
  return Of(node, "set", [=](ClusterSimulation& w) { return w.Set(node, "key", "value"); });
}

Action Steps(const std::string& node, int64_t step) {
  return {absl::StrCat("step ", step), [=](ClusterSimulation& w) {
            return w.Say(node, StepsCommitted{w.generation(), step});
          }};
}

Action StepsByTime(const std::string& node) {
  return {"steps", [=](ClusterSimulation& w) {
            const auto step = static_cast<int64_t>(2 * ToSeconds(w.now() - TimePoint()));
            return w.Say(node, StepsCommitted{w.generation(), step});
          }};
}

Action OfferAll(const std::vector<std::string>& nodes) {
  return {"offer all", [=](ClusterSimulation& w) {
            Lines lines;
            for (const std::string& node : nodes) lines = Joined(std::move(lines), w.OfferFrom(node));
            return lines;
          }};
}

Action Beats(const std::vector<std::string>& nodes) {
  return {"beats", [=](ClusterSimulation& w) {
            Lines lines;
            for (const std::string& node : nodes) lines = Joined(std::move(lines), w.Beat(node));
            return lines;
          }};
}

Action NextTick() {
  return {"tick", [](ClusterSimulation& w) { return w.TickAtDeadline(); }};
}

Action Pass(Duration duration) {
  return {absl::StrCat(HumanDuration(duration), " pass"),
          [=](ClusterSimulation& w) { return w.Advance(duration); }};
}

Action Look(const JobSettings& settings, std::vector<PeerService> peers, const std::set<std::string>& dead) {
  std::string name = "probe";
  for (size_t i = 0; i < peers.size(); ++i) {
    peers[i].endpoint = settings.endpoints.at(i);
    absl::StrAppend(&name, " ", static_cast<int>(peers[i].state), ":", peers[i].generation.number);
  }
  const ProbeResult result{peers, dead, {}};
  return {name, [=](ClusterSimulation& w) { return w.Look(result); }};
}

PeerService Peer(PeerService::State state, uint64_t generation, bool authority) {
  PeerService peer;
  peer.state = state;
  peer.generation = Generation{generation, generation};
  peer.authority = authority;
  return peer;
}

std::vector<Action> EverydayActions(const std::vector<std::string>& nodes) {
  std::vector<Action> actions;
  for (const std::string& node : nodes) {
    for (const Action& action : {Open(node), OfferAgain(node), OfferLate(node), CloseStream(node), Fail(node),
                                 Break(node), Finish(node), Leave(node), EvictNode(node), Wait(node)}) {
      actions.push_back(action);
    }
  }
  for (const Action& action : {NextTick(), Beats(nodes), StepsByTime(nodes.front()), Set(nodes.front())})
    actions.push_back(action);
  return actions;
}

}  // namespace mtrun::rendezvous

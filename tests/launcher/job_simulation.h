// A whole job in simulated time: production state machines of services and agents, the production ends of
// their sessions, and around them a small world of hosts, streams and worker processes that a seed makes
// fail: agents die, freeze and are told to go, cables are pulled, streams break, services die and come back,
// workers crash and break. What must hold is checked after every event. One run is a few seconds of the job's
// time; the same seed gives the same run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/core/agent_core.h"
#include "rendezvous/job_table.h"
#include "rendezvous/session/agent_end.h"
#include "rendezvous/session/service_end.h"

namespace mtrun::launcher {

class JobSimulation {
 public:
  struct Setup {
    uint64_t seed = 0;
    int nodes = 3, services = 1;  // service i is on node i
    int min_nodes = 1, max_nodes = 3;
    int workers = 2;
    bool cooperative = true;
    bool warm_up = false;  // trainers: their workers start before they have a rank
    int faults = 6;
    bool trace = false;  // costs half of the time
  };
  explicit JobSimulation(const Setup& setup);

  /// Faults, then calm: everything is mended, and within a bound the job runs on all its nodes again; then it
  /// finishes. What went wrong first, nothing when all was well.
  std::optional<std::string> Run();
  /// What happened, with `trace`.
  std::string Trace() const;
  static constexpr const char* kFaults[] = {"agent killed",  "agent frozen",    "cable pulled",
                                            "stream broken", "service killed",  "worker killed",
                                            "broken",        "agent told to go"};
  const std::map<std::string, int>& fired() const { return fired_; }
  size_t generations() const { return generations_.size(); }

 private:
  struct Worker {
    bool alive = false, exited = false;  // exited: its group is not gone yet
    uint64_t serial = 0;
    bool draining = false;
  };
  struct Agent {
    int node = 0;
    uint64_t incarnation = 0;  // 0: there is none
    bool frozen = false;
    std::vector<std::function<void()>> backlog;  // while frozen
    std::string node_id;
    std::unique_ptr<AgentCore> core;
    rendezvous::AgentEnd end;
    std::vector<Worker> workers;
    uint64_t connection = 0;
    bool connecting = false;
    size_t place = 0;
    TimePoint heard;
    uint64_t timer = 0;
    rendezvous::Generation last_run;
    TimePoint lease_ends;                    // as in the page that its workers map
    std::set<rendezvous::Generation> knows;  // that it was told of
  };
  struct Session {
    uint64_t incarnation = 0, connection = 0;
    rendezvous::ServiceEnd<rendezvous::ServiceEvent> end;
  };
  struct Service {
    uint64_t id = 0;  // 0: there is none
    std::unique_ptr<rendezvous::JobTable> jobs;
    std::map<std::string, Session> sessions;
    uint64_t timer = 0;
    bool looking = false;
    TimePoint last_look;
    uint64_t look_timer = 0;
  };
  struct Connection {
    size_t agent = 0, service = 0;
    uint64_t incarnation = 0, service_id = 0;
    bool open = true;
    TimePoint last_up, last_down;
  };
  struct Due {
    TimePoint when;
    uint64_t order = 0;
    std::shared_ptr<std::function<void()>> act;
    bool operator<(const Due& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  // The world.
  void At(Duration delay, std::function<void()> act);
  void RunUntil(TimePoint end);
  Duration Delay(int most_ms) { return std::chrono::microseconds(random_() % (1000ull * most_ms) + 50); }
  bool Reach(size_t a, size_t b) const { return a == b || (!cut_.contains(a) && !cut_.contains(b)); }
  void Fault();
  void Freeze(size_t node);
  void PullCable(size_t node);
  void Mend();
  template <typename... Parts>
  void Note(const Parts&... parts) {
    if (setup_.trace) Write(absl::StrCat(parts...));
  }
  void Write(const std::string& text);
  void Broken(std::string what);
  void Check();
  std::string CheckFormed() const;

  // Agents and their sessions, as rendezvous/session/session_client.cc.
  void Boot(size_t agent);
  void Die(size_t agent);
  void Awake(size_t agent, uint64_t incarnation, std::function<void()> act);
  void Feed(size_t agent, const Event& event);
  void ArmAgent(size_t agent);
  void Connect(size_t agent);
  void Retry(size_t agent, Duration delay);
  void Beat(size_t agent, uint64_t connection);
  void OnLease(size_t agent, TimePoint sent, const rendezvous::Generation& generation);
  void Renew(size_t agent, std::optional<Duration> from);
  bool MayCommit(const Agent& agent) const;
  void Pump(size_t agent);
  void OnDown(size_t agent, uint64_t connection, uint64_t sequence, const rendezvous::ServiceEvent& event,
              uint64_t acknowledged);
  void Lost(size_t agent, uint64_t connection);
  void Perform(size_t agent, const Effect& effect);
  void StartOne(size_t agent, int local_rank);
  void EndWorker(size_t agent, int local_rank, int code, int signal);
  void SignalOne(size_t agent, int local_rank, int signal);
  void Say(size_t agent, int local_rank, channel::WorkerMessage message);

  // Services, as rendezvous/service/registrar.cc.
  void BootService(size_t service);
  void KillService(size_t service);
  void OnHello(size_t service, uint64_t connection, rendezvous::StreamOpened opened, uint64_t welcomed_by,
               uint64_t acknowledged);
  void OnUp(size_t service, uint64_t connection, uint64_t sequence, const rendezvous::AgentSaid& said,
            uint64_t acknowledged);
  void StepService(size_t service, const rendezvous::Event& event);
  void PerformService(size_t service, const std::vector<rendezvous::JobTable::JobEffect>& effects);
  void NoteInformed(const Service& service, const rendezvous::Generation& formed);
  void PumpDown(Session& session);
  void ArmService(size_t service);
  void ConsiderLooking(size_t service);
  rendezvous::ProbeResult LookAround(size_t service, const rendezvous::ProbeRequest& wanted) const;

  // Streams.
  void Up(uint64_t connection, std::function<void()> deliver);
  void Down(uint64_t connection, std::function<void()> deliver);
  void Break(uint64_t connection, bool service_notices);

  const Setup setup_;
  std::mt19937_64 random_;
  rendezvous::JobSettings settings_;
  TimePoint now_;
  uint64_t order_ = 0, ids_ = 0;
  std::priority_queue<Due> due_;
  std::vector<Agent> agents_;
  std::vector<Service> services_;
  std::map<uint64_t, Connection> connections_;
  std::set<size_t> cut_;
  bool calm_ = false;
  std::map<std::string, int> fired_;
  std::set<rendezvous::Generation> generations_;
  std::set<rendezvous::Generation> forgotten_;  // no service that knew them is left
  // Of which ones the agents knew that were registered where a generation was formed.
  std::map<rendezvous::Generation, std::set<rendezvous::Generation>> informed_;
  std::set<std::tuple<std::string, int, rendezvous::Generation>> starts_;
  std::optional<std::string> broken_;
  std::deque<std::string> trace_;
};

}  // namespace mtrun::launcher

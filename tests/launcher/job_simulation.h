// Simulates a whole job: the production state machines of services and agents and the production ends of
// their sessions run in a small world of hosts, clocks, links, streams and worker processes. A seed makes
// these fail. The invariants are checked after every event. A run covers a few seconds of the job's time; the
// same seed gives the same run.
//
//   job_simulation_world     time, phases, streams       job_simulation_agents    agents and their sessions
//   job_simulation_faults    the faults                  job_simulation_workers   worker processes
//   job_simulation_checks    the invariants              job_simulation_services  services and their probes
//   job_simulation_hosts     services hosted by agents, and takeovers
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/core/agent_core.h"
#include "launcher/core/host_watch.h"
#include "rendezvous/job/job_table.h"
#include "rendezvous/session/agent_end.h"
#include "rendezvous/session/retry_schedule.h"
#include "rendezvous/session/service_end.h"
#include "rendezvous/wire/job_settings.h"
#include "tests/launcher/simulated_clocks.h"
#include "tests/launcher/simulated_network.h"

namespace mtrun::launcher {

class JobSimulation {
 public:
  struct Setup {
    uint64_t seed = 0;
    int jobs = 1;                 // that share the services
    int runs = 1;                 // one after the other, with the same id
    bool forget_runs = false;     // services end with a run and forget its outcome
    int nodes = 3, services = 1;  // service i is on node i
    int min_nodes = 1, max_nodes = 3;
    int workers = 2;
    bool cooperative = true;
    bool warm_up = false;             // trainers: workers start before they have a rank
    int faults = 8, late_faults = 0;  // late: while the last run finishes
    bool firewall = false;            // a firewall rejects connections to node 0's presence port
    // Agents host the services and share their fates: node 0's uses the single endpoint, the others stand by.
    bool hosted = false;
    bool majority = false;   // takeover=majority
    bool lose_file = false;  // all saved files are lost
    // The job starts over although the first service is lost for good. A few schedules then fail: a service
    // with authority over an older generation keeps nodes that the service with the newest one lacks; or a
    // service with the newest generation and no node sends new nodes to one that counts on from an older one.
    bool begin_without_first = false;
    bool lose_services = true;    // if there are several, for good
    uint64_t drift_ppm = 10'000;  // of the nodes' clocks
    Duration lease = std::chrono::seconds(2);
    Duration ordinary_interval = std::chrono::seconds(1);  // a third of the silence of ordinary programs
    bool trust_leavers = false;    // workers of a program are gone once their node says that it leaves
    bool excuse_forgotten = true;  // forgotten generations can continue for the rest of their leases
    bool excuse_untold = true;     // of two parts of a run unaware of each other; also after an eviction
    bool late_first_beat = false;  // an offer can arrive, and be answered, before the first beat
    bool lose_one = false;         // a node is cut off for good while the last run finishes
    bool trace = false;            // doubles the time
  };
  explicit JobSimulation(const Setup& setup);

  /// Injects faults, then repairs everything: the job must run on all its nodes again within a bound; then it
  /// finishes. Returns the first violation, or nothing.
  std::optional<std::string> Run();
  /// Returns the events, if `trace` is set.
  std::string Trace() const;
  static constexpr const char* kFaults[] = {"agent killed",  "agent frozen",          "cable pulled",
                                            "stream broken", "service killed",        "worker killed",
                                            "broken",        "agent told to go",      "link cut",
                                            "one way cut",   "worker frozen",         "guardian frozen",
                                            "power lost",    "service lost for good", "cut behind a hello"};
  static constexpr char kEvicted[] = "evicted";  // sent by an operator after some faults
  const std::map<std::string, int>& fired() const { return fired_; }
  size_t generations() const { return formed_.size(); }

 private:
  /// A generation, as formed by a service.
  struct Formed {
    rendezvous::Generation generation;
    size_t job = 0;
    int run = 0;  // number of runs that had ended
    size_t workers = 0;
    // The generations known to the agents that were registered at the service when it was formed.
    std::set<rendezvous::Generation> informed;
    bool forgotten = false;      // no remaining service knew it
    mutable TimePoint whole_at;  // last time
    // Another run of the job, which does not know of this one, counts from 1.
    uint64_t incarnation = 0;
    size_t order = 0;               // among all generations
    std::string service;            // that formed it
    rendezvous::Generation base;    // the last one that its service knew
    std::set<std::string> members;  // node ids
    TimePoint formed_at;
    bool OlderThan(const Formed& other) const {
      return incarnation == other.incarnation ? generation < other.generation : order < other.order;
    }
  };
  enum class Temper {
    kQuick,
    kSlow,     // takes seconds to stop
    kIgnores,  // every signal but SIGKILL
    kSticks,   // in the kernel: exists for seconds after SIGKILL, but does nothing
  };
  struct Worker {
    bool alive = false;
    uint64_t serial = 0;
    Temper temper = Temper::kQuick;
    bool doomed = false;    // SIGKILL was sent
    bool by_lease = false;  // by the guardian, when the lease ended
    bool frozen = false;
    std::vector<std::function<void()>> backlog;  // while frozen
    const Formed* in = nullptr;                  // the generation that it is in
    const Formed* done = nullptr;                // the generation that it has finished
    const Formed* next = nullptr;  // the assigned generation, which it enters after its next step
    bool leaves = false;
  };
  struct Agent {
    size_t node = 0, job = 0;
    int run = 0;               // the job run for which it was started
    uint64_t incarnation = 0;  // 0: there is no agent
    bool frozen = false;
    std::vector<std::function<void()>> backlog;  // while frozen
    std::deque<Event> unread;                    // while its main loop is busy
    std::string node_id;
    std::unique_ptr<AgentCore> core;
    rendezvous::AgentEnd end;
    std::vector<Worker> workers;
    uint64_t connection = 0;
    bool connecting = false;
    std::unique_ptr<rendezvous::RetrySchedule> retries;
    bool cut_behind_hello = false;  // at its next one
    bool over = false;              // it no longer connects
    size_t place = 0;
    TimePoint heard;  // true time
    uint64_t timer = 0;
    rendezvous::Generation last_run;
    bool said_leaving = false;
    TimePoint lease_ends;  // the newest generation's, by its clock
    // The newest generations' leases, newest first, as in the page that its workers map.
    std::array<std::pair<rendezvous::Generation, TimePoint>, 8> leases;
    TimePoint muted_until;  // its guardian is frozen
    uint64_t alarm = 0;     // rings at its guardian; 0: not set
    TimePoint alarm_at;
    std::set<rendezvous::Generation> knows;   // generations of which it was notified
    std::vector<std::string> endpoints;       // candidates; `place` is one of them
    bool silent = false, redirected = false;  // why its stream ends

    // If services are hosted.
    std::optional<HostWatch> watch;
    bool looking = false;
    uint64_t watch_timer = 0;
    std::vector<std::string> heirs;  // the members' services
  };
  struct Session {
    uint64_t incarnation = 0, connection = 0;
    rendezvous::ServiceEnd<rendezvous::ServiceEvent> end;
  };
  struct Service {
    uint64_t id = 0;    // 0: there is no service
    bool lost = false;  // for good
    std::unique_ptr<rendezvous::JobTable> jobs;
    std::map<std::string, Session> sessions;
    TimePoint since;  // its start; true time
    bool looking = false;
    std::map<std::string, TimePoint> last_look;  // by job; true time
    uint64_t timer = 0, look_timer = 0;
    std::map<std::string, uint64_t> runs;  // incarnations of the running ones, by job
    std::string endpoint;                  // if hosted: its address for members
    uint64_t owner = 0;                    // if hosted: the agent that hosts it
    // By job: the generation written down, the number of verified nodes, the digest of the spares.
    std::map<std::string, std::tuple<rendezvous::Generation, size_t, uint64_t>> kept;
    std::map<std::string, rendezvous::Generation> known;  // before the current step, by job
  };
  /// One direction of a connection.
  struct Way {
    TimePoint last;         // when the newest message arrives
    TimePoint out, resent;  // end of the last outage, and when TCP resends
    bool dead = false;      // drops all data silently until the connection is abandoned
  };
  /// A TCP connection.
  struct Connection {
    size_t agent = 0, service = 0;
    uint64_t incarnation = 0, service_id = 0;
    Way up = {}, down = {};
    bool open = true;
    bool given_up = false;  // by the agent: data already sent still arrives
  };
  struct Due {
    TimePoint when;
    uint64_t order = 0;
    std::function<void()> act;
    bool operator<(const Due& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  enum class By { kNetwork, kAgent, kService };

  // The world.
  void At(Duration delay, std::function<void()> act);
  void RunUntil(TimePoint end);
  Duration Delay(int most_ms) { return std::chrono::microseconds(random_() % (1000ull * most_ms) + 50); }
  bool OneIn(int many) { return random_() % static_cast<uint64_t>(many) == 0; }
  bool Reach(size_t a, size_t b) const { return network_.Reach(a, b, now_); }
  TimePoint NowOn(size_t node) const { return clocks_.On(node, now_); }
  /// Returns the true time until the node's clock shows `shown`.
  Duration UntilOn(size_t node, TimePoint shown) const;
  template <typename... Parts>
  void Note(const Parts&... parts) {
    if (setup_.trace) Write(absl::StrCat(parts...));
  }
  void Write(const std::string& text);
  void Disturb();
  void Calm();
  void Finish();
  void FinishSome();
  void HoldBack(size_t agent);
  void ForgetRun();
  void LoseOne();
  bool NextRunIsCertain(const Agent& agent) const;

  // Faults.
  void Fault();
  bool Do(size_t kind, size_t node);
  void Freeze(size_t agent);
  bool FreezeWorker(size_t agent, int local_rank);
  void ThawWorker(size_t agent, int local_rank);
  void CutLink(size_t from, size_t to, TimePoint until, bool for_good);
  void CutOff(size_t node, TimePoint until, bool for_good);
  bool LosePower(size_t agent);
  void EvictDead(const std::string& node_id);
  bool BreakCollectives(size_t agent, int local_rank);
  bool CutSome(size_t node, bool both_ways);
  bool CutBehindHello(size_t agent);
  bool LoseService(size_t service, bool for_good);
  bool MembersLive() const;
  void Mend();

  // Invariants.
  void Broken(std::string what);
  void Check();
  void CountTakingPart();
  std::string CheckFormed(size_t job) const;
  std::string CheckWarm(size_t job) const;
  void CheckEnded();
  bool EndWasForgotten(const Agent& agent) const;
  bool MayStay(const Agent& agent) const;
  void CheckDone(const Formed& told);
  void CheckSilence(const Service& service, const rendezvous::GenerationDissolved& over);
  void CheckRefused(const Agent& agent);
  void NoteEnded(const std::string& node_id, const rendezvous::JobEnded& event);
  void NoteRuns(Service& service);
  bool MayCommit(const Agent& agent, const Worker& worker) const;
  bool Excused(const Formed& old, const Formed& young) const;
  bool NobodyCouldTell(const Formed& one, const Formed& other) const;
  void NoteFailed(const Agent& agent);
  void CheckBudget(const rendezvous::Assignment& assignment);
  bool CheckRun(const Agent& member, const Formed& formed);
  void CheckRuns(const rendezvous::Assignment& assignment);
  void NoteFormed(const Service& service, const rendezvous::Assignment& assignment);
  void NoteServicesDied();
  void NoteForgotten(const Service& former, uint64_t number);
  // Agents and their sessions, like session_client.cc.
  void Boot(size_t agent);
  /// `lingers`: its process remains for the service that it hosts.
  void Die(size_t agent, bool lingers = false);
  void Awake(size_t agent, uint64_t incarnation, std::function<void()> act);
  void Feed(size_t agent, const Event& event);
  /// Feeds an event of the session. Sometimes the agent's main loop is busy: the session goes on meanwhile.
  void Arrive(size_t agent, const Event& event);
  void Handle(size_t agent, const Event& event);
  void ArmAgent(size_t agent);
  void Connect(size_t agent);
  void Retry(size_t agent, Duration delay);
  void Beat(size_t agent, uint64_t connection);
  void SendBeat(size_t agent, uint64_t connection);
  void OnLease(size_t agent, const rendezvous::Lease& lease);
  void Renew(size_t agent, std::optional<Duration> from);
  void Pump(size_t agent);
  void OnDown(size_t agent, uint64_t connection, uint64_t sequence, const rendezvous::ServiceEvent& event,
              uint64_t acknowledged);
  void Lost(size_t agent, uint64_t connection);
  void Perform(size_t agent, const Effect& effect);
  // Workers.
  void Start(size_t agent, const StartWorkers& effect);
  void StartOne(size_t agent, int local_rank);
  void Tell(size_t agent, int local_rank, const channel::AgentMessage& message);
  void TakeNext(Worker& worker);
  void EndWorker(size_t agent, int local_rank, int code, int signal);
  void SignalOne(size_t agent, int local_rank, int signal);
  void KillOne(size_t agent, int local_rank);
  void SetAlarm(size_t agent);
  void Ring(size_t agent, uint64_t alarm);
  void Say(size_t agent, int local_rank, channel::WorkerMessage message);
  /// Runs `act` after `delay` if this worker still exists.
  void AsWorker(size_t agent, int local_rank, Duration delay, std::function<void()> act);
  Worker* FindWorker(size_t agent, int local_rank);
  const Formed* FindFormed(const rendezvous::Generation& generation) const;

  // Services, like rendezvous/service/registrar.cc.
  void BootService(size_t service);
  void KillService(size_t service);
  void OnHello(size_t service, uint64_t connection, uint64_t attempt, rendezvous::StreamOpened opened,
               uint64_t welcomed_by, uint64_t acknowledged);
  void OnUp(size_t service, uint64_t connection, uint64_t sequence, const rendezvous::AgentSaid& said,
            uint64_t acknowledged);
  void OnBeat(size_t service, uint64_t connection, const std::string& node_id,
              const rendezvous::Heartbeat& beat, uint64_t acknowledged);
  void StepService(size_t service, const std::string& job_id, const rendezvous::Event& event);
  void PerformService(size_t service, const std::vector<rendezvous::JobTable::JobEffect>& effects);
  void PumpDown(Session& session);
  void ArmService(size_t service);
  void ConsiderLooking(size_t service);
  void Look(size_t service, const rendezvous::ProbeRequest& wanted);
  rendezvous::ProbeResult LookAround(size_t service, const rendezvous::ProbeRequest& wanted);
  void LookAtMember(size_t service, const std::string& node_id, const rendezvous::PresenceProbe& probe,
                    rendezvous::ProbeResult* looked) const;
  rendezvous::PeerService LookAtService(size_t service, const std::string& endpoint,
                                        const rendezvous::ProbeRequest& wanted);

  // Services hosted by agents, like launcher/hosting.cc and launcher/succession.cc.
  size_t NodeAt(const std::string& endpoint) const;
  /// Returns the service that answers at `endpoint`.
  std::optional<size_t> ServiceAt(const std::string& endpoint) const;
  bool IsFrozen(size_t service) const;
  /// Runs `act` if the service still exists; later if its agent is frozen.
  void AsService(size_t service, uint64_t id, std::function<void()> act);
  /// Returns the port at which members reach it.
  int BootHosted(size_t service);
  /// Returns the agent that hosts the service, as reported to an agent connected to it.
  rendezvous::ServiceHost HostOf(size_t agent, size_t service) const;
  void Linger(size_t service, uint64_t id);
  void NoteKnown(size_t service);
  void ReadWrittenDown(Service& service);
  void WriteDown(size_t service, const std::string& job_id);
  void NoteEndAtHost(const Agent& agent, const Exit& exit);
  void AskAs(size_t service, size_t other, const rendezvous::ProbeRequest& wanted);
  void MindHost(size_t agent);
  void TakeOver(size_t agent);
  static void MoveOn(Agent& agent);
  static void MoveTo(Agent& agent, const std::string& endpoint);
  void OnMembership(Agent& agent, const rendezvous::Assignment& generation);

  // Streams.
  enum class To { kService, kAgent };
  void Up(uint64_t connection, std::function<void()> deliver) {
    Carry(connection, To::kService, std::move(deliver));
  }
  void Down(uint64_t connection, std::function<void()> deliver) {
    Carry(connection, To::kAgent, std::move(deliver));
  }
  void Carry(uint64_t connection, To to, std::function<void()> deliver);
  void Arrive(uint64_t connection, To to, std::function<void()> deliver);
  Way& Pass(uint64_t connection, To to);
  void End(uint64_t connection, By by);
  void OnStreamEnded(uint64_t connection);

  static constexpr char kEndpoint[] = "head:29400";  // the hosted services'
  const Setup setup_;
  std::mt19937_64 random_;
  std::vector<rendezvous::JobSettings> settings_;  // one per job
  TimePoint now_;
  uint64_t order_ = 0, ids_ = 0;
  std::vector<Due> due_;  // a heap, the earliest first
  SimulatedClocks clocks_;
  SimulatedNetwork network_;
  std::vector<Agent> agents_;
  std::vector<Service> services_;
  rendezvous::JobTable::Remembered file_;  // saved by the service at the endpoint, by job id
  std::map<std::string, rendezvous::RememberedEnd> ends_;
  int ports_ = 30000;
  std::map<uint64_t, Connection> connections_;
  // The end of the silence of dead agents' ports, by incarnation.
  std::map<uint64_t, TimePoint> leftovers_;
  int run_ = 1;                  // for which agents are started
  int finishing_ = 0;            // the run that is ending
  std::optional<size_t> alone_;  // the node that is cut off for good
  bool calm_ = false;            // no more faults, and no answer is late
  TimePoint service_died_;       // the most recent one
  bool forgetful_ = false;       // a service died, and its knowledge of a job, if any, is not saved

  std::map<std::string, int> fired_;
  std::map<rendezvous::Generation, Formed> formed_;
  std::map<std::string, TimePoint> died_;                           // nodes and services, by name
  std::map<std::pair<size_t, int>, const Formed*> youngest_whole_;  // by job and run
  std::map<size_t, std::map<uint64_t, TimePoint>> ended_;  // by job and incarnation: when the run ended
  std::map<uint64_t, std::set<uint64_t>> continued_;       // incarnations under which a run continued
  std::set<std::tuple<std::string, int, rendezvous::Generation>> starts_;
  std::map<rendezvous::Generation, std::set<std::pair<std::string, int>>> done_;  // done workers, by node
  std::vector<std::pair<const Formed*, size_t>> taking_part_;  // workers by generation, youngest first
  std::set<rendezvous::Generation> failed_in_;  // generations in which a worker was killed or found dead
  std::optional<std::string> broken_;
  std::deque<std::string> trace_;
};

}  // namespace mtrun::launcher

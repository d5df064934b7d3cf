// Shared by the rows of the liveness table: jobs whose workers take real steps (tools/chaos.d/toy.py), the
// faults, and the time from a fault to the next step.
//
// Each worker writes its own record. When a test ends tools/chaos checks all records: a rank belongs to one
// worker, no two generations take steps at the same time, and every start belongs to one generation.
#pragma once

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/e2e/cluster.h"
#include "tests/e2e/timed_rows.h"

namespace mtrun::e2e {

class LivenessTest : public NetworkTest, public TimedRows {
 protected:
  static constexpr int kPerNode = 2;  // workers

  // Bounds in seconds. S is fence_timeout; rows that do not wait for it leave it at 30 s.
  static constexpr double kProven = 0.5;  // a member is proven dead, or has survivors
  static constexpr double kSilent = 2;    // a silent member has survivors
  static constexpr double kMajority = 3;  // a silent host; most members have another service
  static constexpr int kFence = 2;        // S, if a row waits for it
  static constexpr double kFenced = kFence + 3;

  /// A line of a worker's record. Times are seconds of the monotonic clock.
  struct Record {
    double at = 0;
    std::string kind;  // "enter": joined a generation; "commit": its generation took a step
    std::string host;
    pid_t pid = -1;
    int generation = 0, world = 0;
  };

  LivenessTest() : NetworkTest(5), TimedRows("liveness") {}

  void SetUp() override {
    NetworkTest::SetUp();
    if (network_) std::filesystem::create_directory(folder_.File("records"));
  }
  void TearDown() override {
    EndTry();
    NetworkTest::TearDown();
  }

  /// Runs a row: `once` starts a job in a new cluster, injects a fault and reports the time to its next step.
  void Row(const std::function<void()>& once) {
    Tries(once, [this] {
      EndTry();
      EXPECT_TRUE(mark_.WaitForNone(kSoon)) << "processes remain";
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
        std::filesystem::remove_all(entry.path());
      SetUp();
    });
  }

  // ---- the job

  /// Sets how all nodes are started. `fence`: fence_timeout in seconds, 0: its default, 30 s.
  void SetJob(const std::string& nodes, int fence, const std::string& kind = "cooperative",
              const std::string& conf = "") {
    spec_ = nodes;
    conf_ = absl::StrCat(fence > 0 ? absl::StrCat(",fence_timeout=", fence) : "", conf);
    kind_ = kind;
  }
  /// Starts a stand-alone service on node 0.
  void Serve() { service_ = StartService(); }
  /// Lets the mtruns of these nodes host the services.
  void HostAt(const std::vector<int>& nodes) {
    endpoints_.clear();
    for (const int node : nodes) endpoints_.push_back(network_->Address(node) + ":29400");
  }
  /// Starts mtrun on that node.
  void Run(int node) {
    toy_ = {"--nproc_per_node",
            absl::StrCat(kPerNode),
            "--max_restarts",
            "10",
            "--event_log",
            folder_.File(absl::StrCat("events-", node, ".jsonl")),
            "--no_python",
            "env",
            "MTRUN_CHAOS_RECORDS=" + folder_.File("records"),
            "python3",
            "-I",
            "-S",
            support::TestFile("../tools/chaos.d/toy.py"),
            kind_};
    mtrun_[node] = Start(node, spec_, conf_, "20");
  }
  /// Starts the members, which then run together, and the spares.
  void Form(const std::vector<int>& members, const std::vector<int>& spares = {}) {
    for (const int node : members) Run(node);
    const auto step = WaitForStep(0, 1);
    ASSERT_TRUE(step) << Texts();
    ASSERT_EQ(step->world, kPerNode * static_cast<int>(members.size()));
    for (const int node : spares) Run(node);
    for (const int node : spares) WaitToBeSpare(node);
  }
  void WaitToBeSpare(int node) {
    EXPECT_TRUE(mtrun_[node]->WaitForLine("spare: ", kSoon)) << node << ":\n" << mtrun_[node]->Text();
  }
  /// Starts these nodes; returns the seconds until they have taken a step.
  double TimeToStart(const std::vector<int>& nodes) {
    const double begin = Now();
    for (const int node : nodes) Run(node);
    const auto step = WaitForStep(begin, 1);
    EXPECT_TRUE(step) << Texts();
    return step ? step->at - begin : kSoon.count();
  }
  /// Ends the work: every node must exit by itself, with 0.
  void ExpectToEnd(const std::vector<int>& nodes) {
    support::WriteText(folder_.File("done-0"), "");
    for (const int node : nodes) EXPECT_EQ(mtrun_[node]->Wait(), 0) << mtrun_[node]->Text();
  }

  // ---- faults

  void KillWorker(int node) const { kill(*WorkersOf(node, 1).begin(), SIGKILL); }
  /// The guardian ends the workers, and the host refuses connections.
  void KillAgent(int node) { kill(AgentOf(*mtrun_[node]), SIGKILL); }
  void KillService() {
    service_->Signal(SIGKILL);
    EXPECT_TRUE(service_->Wait().has_value());
  }
  /// Kills nodes and service; returns when no process is left.
  void KillAll() {
    for (const auto& [node, mtrun] : mtrun_) mtrun->Signal(SIGKILL);
    if (service_) KillService();
    mtrun_.clear();
    EXPECT_TRUE(mark_.WaitForNone(kSoon));
  }
  /// Ends the node's processes without any notification.
  void LosePower(int node) {
    ASSERT_TRUE(network_->SetLink(node, false).ok());
    SignalNode(node, SIGKILL);
  }
  /// Sends the signal to all processes of the node.
  void SignalNode(int node, int signal) {
    const auto space = [](pid_t pid) {
      std::error_code gone;
      return std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/ns/net"), gone);
    };
    const auto here = space(mtrun_[node]->pid());
    for (bool found = true; found;) {
      found = false;
      for (const pid_t pid : mark_.Alive()) {
        if (space(pid) != here) continue;
        found = signal == SIGKILL;
        kill(pid, signal);
      }
    }
  }

  // ---- the workers' records

  static double Now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

  std::vector<Record> Records(const std::string& kind) const {
    std::vector<Record> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File("records"))) {
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (json.is_discarded() || json["kind"] != kind) continue;  // it is being written
        found.push_back({json["t"], kind, json["host"], json["pid"],
                         std::stoi(json["generation"].get<std::string>()), json.value("world", 0)});
      }
    }
    return found;
  }
  /// Waits for the first step after `since` by generation `least` or a later one.
  std::optional<Record> WaitForStep(double since, int least) const {
    for (const double end = Now() + kSoon.count(); Now() < end;) {
      std::optional<Record> first;
      for (const Record& step : Records("commit")) {
        if (step.at > since && step.generation >= least && (!first || step.at < first->at)) first = step;
      }
      if (first) return first;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // another process's file gives us no event
    }
    return std::nullopt;
  }
  /// Sleeps until then.
  static void Rest(double until) { std::this_thread::sleep_for(Seconds(until - Now())); }
  /// Returns the time of the last step, or `since` if there was none after it.
  double LastStep(double since) const {
    for (const Record& step : Records("commit")) since = std::max(since, step.at);
    return since;
  }
  /// Returns the longest time between two steps after `since`.
  double LongestPause(double since) const {
    std::set<double> times = {since};
    for (const Record& step : Records("commit")) {
      if (step.at > since) times.insert(step.at);
    }
    double longest = 0, last = since;
    for (const double time : times) longest = std::max(longest, time - std::exchange(last, time));
    return longest;
  }
  std::set<pid_t> WorkersOf(int node, int generation) const {
    std::set<pid_t> found;
    for (const Record& record : Records("enter")) {
      if (record.host == absl::StrCat("node", node) && record.generation == generation)
        found.insert(record.pid);
    }
    return found;
  }
  void ExpectSameWorkers(int node, int generation, int later) const {
    EXPECT_EQ(WorkersOf(node, later).size(), size_t{kPerNode});
    EXPECT_EQ(WorkersOf(node, later), WorkersOf(node, generation)) << "node " << node;
  }
  std::string Texts() {
    std::string text = service_ ? "service:\n" + service_->Text() : "";
    for (const auto& [node, mtrun] : mtrun_) absl::StrAppend(&text, "node ", node, ":\n", mtrun->Text());
    return text;
  }

  // ---- the row

  /// Expects the first step of generation `next`, taken by `nodes` nodes, within `bound` seconds of `fault`.
  void ExpectToGoOn(const std::string& row, double fault, double bound, int nodes, int next = 2) {
    const auto step = WaitForStep(fault, next);
    ASSERT_TRUE(step) << row << "\n" << Texts();
    Report(row, step->at - fault, bound);
    EXPECT_EQ(step->generation, next) << Texts();
    EXPECT_EQ(step->world, kPerNode * nodes) << Texts();
  }

  std::map<int, std::unique_ptr<Program>> mtrun_;  // by node
  std::unique_ptr<Program> service_;

 private:
  void EndTry() {
    mtrun_.clear();
    service_.reset();
    if (network_) ExpectPropertiesHeld();
  }
  void ExpectPropertiesHeld() {
    // The test itself checks the reasons for which generations end.
    support::WriteText(folder_.File("faults.json"),
                       R"({"wall_minus_monotonic": 0, "over": {},)"
                       R"( "faults": [{"node": 0, "from": 0, "to": 1e18, "anybody": true}]})");
    Program check({"python3", support::TestFile("../tools/chaos"), "rendezvous", "--check", folder_.path()});
    EXPECT_EQ(check.Wait(), 0) << check.Text();
  }

  std::string spec_, conf_, kind_;
};

/// Rows that take up to a minute.
class LongLivenessTest : public LivenessTest {};

}  // namespace mtrun::e2e

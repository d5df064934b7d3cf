// mtrun's command line as one value: flags over environment (PET_*) over the `mtrun:` section of --config
// over defaults. Pure apart from reading the --config file: what the machine has is an argument.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/port_range.h"
#include "base/worker_env.h"
#include "launcher/cli/derived_setting.h"
#include "launcher/cli/signals.h"
#include "rendezvous/job_settings.h"
#include "rendezvous/types.h"

namespace mtrun::launcher {

/// What --nproc_per_node auto|cpu|gpu may count.
struct MachineFacts {
  int cpus = 1;
  int gpus = 0;  // visible to this process
};

/// Where one stream of one worker goes, from --redirects and --tee.
struct StreamTargets {
  bool file = true;
  bool console = true;
  bool operator==(const StreamTargets&) const = default;
};
struct OutputPlan {
  StreamTargets out, err;
  bool operator==(const OutputPlan&) const = default;
};

/// What every worker runs.
struct EntryPoint {
  std::string trainer = {};             // --trainer NAME, "" for a program
  std::vector<std::string> words = {};  // program (or module) and its arguments; with a trainer its arguments
  bool module = false;
  bool no_python = false;
  bool run_path = false;  // a Python script, whatever its name
  bool operator==(const EntryPoint&) const = default;
};

/// The machines on which this mtrun starts others by ssh, and how (launcher/ssh); texts as they were given.
struct SshOptions {
  std::string hosts, hostfile;        // both "": none, the workers run here
  std::string program = "ssh";        // and its first arguments
  std::vector<std::string> exported;  // "NAME", "NAME=VALUE"
  std::string folder, mtrun;          // on the hosts; "": as here
  bool nodes_given = false, endpoint_given = false, id_given = false;
  int port = 0;  // of the endpoint; 0: not given
};

struct Options {
  enum class Act {
    kRun,
    kSsh,
    kHelp,
    kVersion,
    kCompletion,
    kStatus,
    kDrain,
    kEvict,
    kStop,
    kLogs,
    kTop,
    kDoctor,
    kNewToken,
    kPasswords
  };
  Act act = Act::kRun;
  std::string completion_shell;      // "bash" or "zsh"
  std::vector<std::string> asked;    // the endpoints of the services that a question is for
  std::string asked_node;            // host or node id of a drain, an eviction
  bool json = false, watch = false;  // of --status
  int asked_rank = 0;                // of --logs
  bool follow = false;               // of --logs
  bool checkpoint = false;           // of --stop
  std::vector<std::string> notes;    // what to warn of: accepted, but without effect
  std::string derived;               // settings that nobody gave, and what they come from; for people
  rendezvous::JobSettings job;
  int workers = 1;
  std::string endpoint;  // "host:port"; standalone: "127.0.0.1:0"
  bool standalone = false;
  bool meets_at_master_port = false;  // a static job: a program may look for its store at the endpoint
  bool run_id_given = false;
  std::optional<bool> is_host;
  std::optional<int> node_rank;
  Duration reconnect_timeout = Duration::zero();  // zero: for ever
  bool warm_up = false;                           // the workers are trainers: see AgentConfig
  Duration hang_notice = Duration::zero(), hang_timeout = Duration::zero();  // zero: never
  Duration connect_timeout = std::chrono::seconds(600);  // until the service is reached for the first time
  bool hold_port = true;
  std::string store = "agent";  // who serves PyTorch's TCPStore on MASTER_PORT: "agent", "rank0"
  std::string master_addr;      // one node with --master_addr: its MASTER_ADDR
  int master_port = 0;          // one node with --master_port: its MASTER_PORT; 0: any free one
  bool may_be_etcd = false;  // --rdzv_backend etcd*: the endpoint may be an etcd server, which cannot serve
  bool insecure = false;     // no token, no TLS
  std::string token_file;    // "": MTRUN_TOKEN or ~/.mtrun/token
  bool weak_token = false;   // one that mtrun has not made will do
  std::string local_addr;    // as it was given; from SettleLocalAddress on an address, a name or "auto"
  std::string local_interface;  // with the address that --local_addr comes to, "" for none; see NodeContext
  std::string role = "default";
  std::string log_dir;  // "" = a temporary folder; "/dev/null" = no files
  Duration shutdown_timeout = std::chrono::seconds(30);
  std::map<int, int> redirects, tee;  // local rank (-1: all) -> 0 none, 1 stdout, 2 stderr, 3 both
  std::set<int> console_ranks;        // local ranks that the console shows; none: all
  std::string console_format;  // "prefix", "plain"; "": plain for one worker, whose bytes then pass unchanged
  bool prefix_given = false;
  std::string prefix_template = "[${role_name}${local_rank}]:";
  std::vector<std::string> out_filters, err_filters;  // lines that are also kept apart
  std::string event_log;                              // "" for none
  std::string http;                                   // where the live page is: HOST:PORT, "" for none
  PortRange port_range;
  SignalPlan signals = DefaultSignals();
  std::string preempt_file;  // "" for none
  bool virtual_local_rank = false;
  std::string numa_binding;  // "", "node", "socket", "exclusive", "core-complex"
  EntryPoint entry;
  SshOptions ssh;
  bool warm_python = false;  // workers are forked from an interpreter that has imported `preload`
  std::vector<std::string> preload = {"torch"};  // modules

  /// Files and console for one worker. By default both; --redirects alone takes a stream off the console.
  OutputPlan OutputOf(int local_rank) const;
  /// The bytes of this node's only worker, a program, go to the console as they are.
  bool RawConsole() const;
  /// Trainers meet over the worker channel: no port is opened for a store that nobody asks.
  bool agent_store() const { return store == "agent" && hold_port && entry.trainer.empty(); }
};

/// `args` without the program's own name. kInvalidArgument names flag, value and what is allowed. With hosts
/// (Act::kSsh) only what this end needs is read: the mtruns there read the rest, of their machines. `derived`
/// takes the place of flags, as an mtrun that another one has started is told them.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args, const EnvironmentMap& environment,
                                     const MachineFacts& machine,
                                     const std::vector<DerivedSetting>& derived = {});

/// Whether every endpoint where the job's service may be is on this machine: then it needs no token.
bool IsOnLoopback(const Options& options, const Resolver& resolve = ResolveHost);

/// Text of --help.
std::string HelpText();

}  // namespace mtrun::launcher

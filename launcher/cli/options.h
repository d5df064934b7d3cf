// mtrun's command line as one value. Precedence: flags, environment (PET_*), `mtrun:` section of --config,
// defaults. Pure except for reading the --config file: the machine's facts are an argument.
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
#include "rendezvous/wire/job_settings.h"
#include "rendezvous/wire/types.h"

namespace mtrun::launcher {

/// Counts for --nproc_per_node auto|cpu|gpu.
struct MachineFacts {
  int cpus = 1;
  int gpus = 0;                 // visible to this process
  bool in_slurm_shell = false;  // started by hand in a shell of srun --pty
};

/// Which streams of one worker the console shows, from --redirects and --tee.
struct OutputPlan {
  bool out = true, err = true;
  bool operator==(const OutputPlan&) const = default;
};

/// Entry point of every worker.
struct EntryPoint {
  std::string trainer = {};             // --trainer NAME; "" for a program
  std::vector<std::string> words = {};  // program (or module) and arguments; for a trainer its arguments
  bool module = false;
  bool no_python = false;
  bool run_path = false;  // a Python script regardless of its name
  bool operator==(const EntryPoint&) const = default;
};

/// Machines on which this mtrun starts others by ssh, and how (launcher/ssh); texts as given by the user.
struct SshOptions {
  std::string hosts, hostfile;        // both "": none, the workers run here
  std::string program = "ssh";        // followed by its first arguments
  std::vector<std::string> exported;  // "NAME", "NAME=VALUE"
  std::string folder, mtrun;          // on the hosts; "": same as here
  bool nodes_given = false, endpoint_given = false, id_given = false;
  int port = 0;  // port of the endpoint; 0: not given
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
  std::vector<std::string> asked;    // endpoints of the services to ask
  std::string asked_node;            // host or node id to drain or evict
  bool json = false, watch = false;  // with --status
  int asked_rank = 0;                // with --logs
  bool follow = false;               // with --logs
  bool checkpoint = false;           // with --stop
  std::vector<std::string> notes;    // warnings about settings without effect
  std::string derived;               // derived settings with their sources, for the log
  bool nodes_from_slurm = false;     // several, and the user did not give their number
  bool keeps_logs = true;            // false: log files were not requested and do not fit
  rendezvous::JobSettings job;
  int workers = 1;
  std::string endpoint;  // "host:port"; standalone: "127.0.0.1:0"
  bool standalone = false;
  bool told_every_address = false;  // as the endpoint, for which `endpoint` has loopback: others have another
  bool serves_all = false;  // a service of this node listens on all addresses, even if told a loopback one
  bool meets_at_master_port = false;  // a static job: a program may look for its store at the endpoint
  bool run_id_given = false;
  std::optional<bool> is_host;
  std::optional<int> node_rank;
  Duration reconnect_timeout = Duration::zero();  // zero: no limit
  bool warm_up = false;                           // the workers are trainers: see AgentConfig
  Duration hang_notice = Duration::zero(), hang_timeout = Duration::zero();  // zero: never
  Duration connect_timeout = std::chrono::seconds(600);  // for the first connection to the service
  bool hold_port = true;
  std::string store = "agent";     // server of PyTorch's TCPStore on MASTER_PORT: "agent", "rank0"
  std::string master_addr;         // single node with --master_addr: its MASTER_ADDR
  int master_port = 0;             // single node with --master_port: its MASTER_PORT; 0: any free port
  bool may_be_etcd = false;        // --rdzv_backend etcd*: the endpoint may be an unusable etcd server
  bool insecure = false;           // no token, no TLS
  std::string token_file;          // "": MTRUN_TOKEN or ~/.mtrun/token
  bool weak_token = false;         // also accept a token that mtrun did not generate
  std::string local_addr;          // as given; after SettleLocalAddress an address, a name or "auto"
  bool hides_behind_name = false;  // without local_addr: Gloo needs an interface, see HidesBehindName
  std::string role = "default";
  std::string log_dir;  // "" = a temporary folder; "/dev/null" = no files
  Duration shutdown_timeout = std::chrono::seconds(30);
  std::map<int, int> redirects, tee;  // local rank (-1: all) -> 0 none, 1 stdout, 2 stderr, 3 both
  std::set<int> console_ranks;        // local ranks shown on the console; empty: all
  std::string console_format;         // "prefix", "plain"; "": plain, byte for byte, for a single worker
  bool prefix_given = false;
  std::string prefix_template = "[${role_name}${local_rank}]:";
  std::vector<std::string> out_filters, err_filters;  // matching lines are copied to separate files
  std::string event_log;                              // "" for none
  std::string http;                                   // HOST:PORT of the live page; "" for none
  PortRange port_range;
  SignalPlan signals = DefaultSignals();
  std::string preempt_file;  // "" for none
  bool virtual_local_rank = false;
  std::string numa_binding;  // "", "node", "socket", "exclusive", "core-complex"
  EntryPoint entry;
  SshOptions ssh;
  bool warm_python = false;  // fork workers from an interpreter that has imported `preload`
  std::vector<std::string> preload = {"torch"};  // modules

  /// Returns what the console shows of one worker. The default is both streams; --redirects alone skips them.
  OutputPlan OutputOf(int local_rank) const;
  /// Returns the template of the prefix of console lines, "" for none. A trainer's name that ends in a digit is
  /// set apart from the rank.
  std::string ConsolePrefix() const;
  /// Returns whether the output of this node's only worker, a program, goes to the console unchanged.
  bool RawConsole() const;
  /// Returns the MASTER_PORT to offer: `held`, or in a static job the endpoint's port, if this node hosts
  /// there (`hosted`; 0: it does not), because the store is served there, too.
  int MasterPort(int hosted, int held) const {
    return meets_at_master_port && agent_store() && hosted != 0 ? hosted : held;
  }
  /// Returns whether to open a port for PyTorch's store. Trainers use the worker channel instead.
  bool agent_store() const { return store == "agent" && hold_port && entry.trainer.empty(); }
};

/// Parses `args`, without the program's own name. kInvalidArgument names the flag, its value and the allowed
/// values. If hosts are given (Act::kSsh), only the options for this end are read: the mtruns on the hosts
/// read the rest on their machines. `derived` replaces flags in an mtrun that was started by another one.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args, const EnvironmentMap& environment,
                                     const MachineFacts& machine,
                                     const std::vector<DerivedSetting>& derived = {});

/// Returns whether all possible endpoints of the job's service are on this machine: it then needs no token.
bool IsOnLoopback(const Options& options, const Resolver& resolve = ResolveHost);

/// Returns the text of --help.
std::string HelpText();

}  // namespace mtrun::launcher

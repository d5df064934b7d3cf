// The rows about the rendezvous: where the nodes of a job meet, and how they reach each other.
#include "launcher/cli/option_table.h"
#include "launcher/cli/options_reading.h"
#include "launcher/cli/rdzv_conf.h"

namespace mtrun::launcher {
namespace {

using Kind = SettingSpec::Kind;

}  // namespace

std::vector<Option> RendezvousRows() {
  return {
      {{.name = "rdzv_endpoint",
        .help = "Address of the rendezvous, the same on all nodes; without PORT, 29400.",
        .value = "HOST[:PORT]",
        .common = true,
        .hints = {"endpoint", "host", "coordinator", "coordinator_address", "head", "head_node"}},
       ReadRendezvous},
      {{.name = "rdzv_id",
        .help = "Name of the job, the same on all nodes.",
        .value = "ID",
        .common = true,
        .hints = {"job_id", "job", "id", "run_id", "name"}},
       PartOf{"rdzv_endpoint"}},
      {{.name = "rdzv_backend",
        .default_text = "mtrun",
        .help = "mtrun, c10d, etcd, etcd-v2: mtrun's own service; static: the same with exactly MAX nodes.",
        .value = "NAME"},
       PartOf{"rdzv_endpoint"},
       "mtrun c10d static etcd etcd-v2"},
      {{.name = "rdzv_conf", .help = ConfHelp(), .value = "KEY=VALUE,..."}, PartOf{"rdzv_endpoint"}},
      {{.name = "standalone",
        .kind = Kind::kBool,
        .help = "Run on this node alone, with a rendezvous of its own on a free port.",
        .common = true},
       PartOf{"rdzv_endpoint"}},
      {{.name = "master_addr",
        .help = "With --master_port: the endpoint, if there is no --rdzv_endpoint.",
        .value = "HOST",
        .hints = {"main_process_ip"}},
       PartOf{"rdzv_endpoint"}},
      {{.name = "master_port",
        .kind = Kind::kInt,
        .help = "Port of --master_addr; with one node, its MASTER_PORT.",
        .value = "PORT",
        .otherwise = "29500",
        .min = 0,
        .max = 65535,
        .hints = {"port", "main_process_port"}},
       PartOf{"rdzv_endpoint"}},
  };
}

std::vector<Option> ReachRows() {
  return {
      {{.name = "store",
        .default_text = "agent",
        .help = "Server of PyTorch's TCPStore at MASTER_PORT, the same on all nodes. agent: node 0's mtrun, "
                "as under torchrun; rank0: the worker of rank 0.",
        .choices = {"agent", "rank0"},
        .yields = true},
       ReadStore},
      {{.name = "local_addr",
        .help =
            "Address at which the other nodes reach this one: an address, an interface (eth0), a network "
            "(10.0.0.0/8) or auto. NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME follow, unless they are set.",
        .value = "ADDRESS",
        .hints = {"address", "bind", "interface"}},
       &Options::local_addr},
      {{.name = "port_range",
        .help = "Ports on which this node's mtrun and its trainers listen, besides the endpoint's.",
        .value = "LOW-HIGH",
        .otherwise = "any free ports",
        .hints = {"ports", "port_min", "port_max"},
        .yields = true},
       ReadPortRange},
      {{.name = "insecure",
        .kind = Kind::kBool,
        .help =
            "Use neither token nor TLS: anyone who can reach the rendezvous can join, read and stop the job.",
        .yields = true},
       &Options::insecure},
      {{.name = "token_file",
        .help = "File with the cluster's token.",
        .value = "FILE",
        .otherwise = "$MTRUN_TOKEN, else ~/.mtrun/token, made at first use",
        .yields = true},
       &Options::token_file},
  };
}

}  // namespace mtrun::launcher

// The rows about machines on which mtrun is started by ssh. An mtrun started this way accepts them too,
// without effect: only ReadHosts uses them.
#include "launcher/cli/option_table.h"
#include "launcher/cli/options_reading.h"

namespace mtrun::launcher {

std::vector<Option> SshRows() {
  const PartOf hosts = {"hosts"};
  return {
      {{.name = "hosts",
        .help = "Run PROGRAM on these machines, with an mtrun started on each by ssh: HOST[:WORKERS],..., "
                "for example a,me@b:8,node[1-4]. This one need not be among them.",
        .value = "HOST,...",
        .common = true,
        .yields = true},
       ReadHosts},
      {{.name = "hostfile",
        .help = "File with the same, a line for each host: HOST [slots=WORKERS]; # begins a comment.",
        .value = "FILE",
        .hints = {"machinefile", "machine_file", "hosts_file"},
        .yields = true},
       hosts,
       kPath},
      {{.name = "ssh",
        .default_text = "ssh",
        .help = "With --hosts: the ssh program and its first arguments, for example \"ssh -F FILE\".",
        .value = "COMMAND",
        .yields = true},
       hosts},
      {{.name = "export",
        .help = "With --hosts: variables for the programs there, NAME or NAME=VALUE; ,, is a comma.",
        .value = "NAME,...",
        .hints = {"genv", "env"},
        .yields = true},
       hosts},
      {{.name = "ssh_folder",
        .help = "With --hosts: the working folder there.",
        .value = "FOLDER",
        .otherwise = "as here",
        .hints = {"wdir", "chdir", "workdir"},
        .yields = true},
       hosts},
      {{.name = "ssh_mtrun",
        .help = "With --hosts: the mtrun there.",
        .value = "PATH",
        .otherwise = "as here, else on the host's PATH",
        .yields = true},
       hosts},
  };
}

}  // namespace mtrun::launcher

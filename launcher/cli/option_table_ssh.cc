// The rows about machines on which others are started by ssh. An mtrun that was started so has them too, and
// they mean nothing to it: ReadHosts reads them where they count.
#include "launcher/cli/option_table.h"
#include "launcher/cli/options_reading.h"

namespace mtrun::launcher {

std::vector<Option> SshRows() {
  constexpr char kSsh[] = "Other machines over ssh";
  const PartOf hosts = {"hosts"};
  return {
      {{.name = "hosts",
        .help = "Runs PROGRAM on these machines, starting an mtrun on each by ssh: HOST[:WORKERS],... as "
                "a,me@b:8,node[1-4]. This one need not be among them.",
        .group = kSsh,
        .yields = true},
       ReadHosts},
      {{.name = "hostfile",
        .help = "The same from a file, a line each: HOST [slots=WORKERS]; # begins a comment.",
        .group = kSsh,
        .hints = {"machinefile", "machine_file", "hosts_file"},
        .yields = true},
       hosts,
       kPath},
      {{.name = "ssh",
        .default_text = "ssh",
        .help = "With --hosts: the ssh program with its first arguments, as \"ssh -F FILE\".",
        .group = kSsh,
        .yields = true},
       hosts},
      {{.name = "export",
        .help = "With --hosts: variables for the programs there: NAME,NAME=VALUE; ,, is a comma.",
        .group = kSsh,
        .hints = {"genv", "env"},
        .yields = true},
       hosts},
      {{.name = "ssh_folder",
        .help = "With --hosts: the folder there [as this one's].",
        .group = kSsh,
        .hints = {"wdir", "chdir", "workdir"},
        .yields = true},
       hosts},
      {{.name = "ssh_mtrun",
        .help = "With --hosts: the mtrun there [where this one is; else that on the host's PATH].",
        .group = kSsh,
        .yields = true},
       hosts},
  };
}

}  // namespace mtrun::launcher

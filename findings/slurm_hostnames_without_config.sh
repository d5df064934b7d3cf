#!/usr/bin/env bash
# "scontrol show hostnames" of Slurm 22.05.8 (Debian 12) needs the cluster's configuration, though it only turns one argument
# into text: without slurm.conf it looks for the controller in DNS and ends with "Could not establish a configuration source",
# status 1, and prints no name. Job scripts take MASTER_ADDR from it: in a container that has Slurm's client without /etc/slurm,
# $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) is empty, with the pipe's status 0. Any configuration will do:
# with a file of two lines that names no node of the list, and without a controller, it prints the names.
#
# Seen with slurm-client 22.05.8-4+deb12u3, whose scontrol(1) presents hostnames as a conversion of its argument. Source:
# src/scontrol/scontrol.c, main reads the configuration before the command and the flags; even "scontrol --version" fails.
#
# Asks the resolver of this machine for _slurmctld._tcp. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

version=22.05.8-4+deb12u3
[ ! -e /etc/slurm/slurm.conf ] || { echo "skipped: this machine has a configuration of Slurm"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in slurm-client slurm-wlm-basic-plugins; do
  apt-get download -qq "$package=$version" 2>/dev/null || { echo "skipped: no Debian package $package $version here"; exit 77; }
  dpkg-deb -x "$package"_*.deb root
done
library=$(dirname "$(find root -name libslurmfull.so)")
scontrol() { LD_LIBRARY_PATH="$folder/$library" root/usr/bin/scontrol "$@"; }
unset SLURM_CONF SLURM_CONF_SERVER

printf 'ClusterName=none\nSlurmctldHost=localhost\n' >slurm.conf
with=$(SLURM_CONF=$folder/slurm.conf scontrol show hostnames 'node[1-3]' 2>errors.txt) ||
  { echo "skipped: this scontrol does not run here: $(tail -n 1 errors.txt)"; exit 77; }
printf 'with two lines: names "%s"\n' "$(xargs <<<"$with")"

changed=0
check() {  # ARGUMENTS OF scontrol
  local names status=0
  names=$(scontrol "$@" 2>errors.txt) || status=$?
  printf 'without a configuration: scontrol %s: status %s, printed "%s", %s\n' "$*" "$status" "$names" \
    "$(tail -n 1 errors.txt)"
  [[ $status = 1 && -z $names ]] && grep -q "Could not establish a configuration source" errors.txt || changed=1
}
check show hostnames 'node[1-3]'
check --version
[ "$with" = $'node1\nnode2\nnode3' ] || changed=1
exit $changed

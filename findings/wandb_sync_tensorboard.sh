#!/usr/bin/env bash
# `wandb sync FOLDER` no longer finds TensorBoard event files since wandb 0.28.1: it prints "No runs to sync." and exits with
# 0, although its own help says "When syncing a specific path, include TensorBoard event files by default". The command is
# routed to `wandb beta sync`, which looks for *.wandb files alone. A script that checks the status believes that its curves
# were sent.
#
# Seen: wandb 0.28.0 finds the event file and goes on to the server (of which there is none here); 0.28.1 finds nothing,
# status 0; with --legacy it finds the file again. Event file: tensorboardX 2.6.4.
#
# Connects to no server: the address that it gives to wandb is a port of this machine at which nothing listens.
# Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 0.28.0 0.28.1; do
  python3 -m venv "$version" && "$version/bin/pip" install --quiet --disable-pip-version-check "wandb==$version" \
    tensorboardX==2.6.4 || { echo "skipped: wandb $version cannot be installed here"; exit 77; }
done
0.28.0/bin/python -c '
from tensorboardX import SummaryWriter
with SummaryWriter("tb") as writer:
    for step in range(3):
        writer.add_scalar("loss", 1 / (step + 1), step)
'

export HOME=$folder WANDB_BASE_URL=http://127.0.0.1:9 WANDB_API_KEY=0000000000000000000000000000000000000000
export WANDB_DIR=$folder
changed=0
check() {  # VERSION FLAGS FOUND
  local output status=0 found=no
  # shellcheck disable=SC2086
  output=$(timeout 120 "$1/bin/wandb" sync $2 tb 2>&1) || status=$?
  grep -q "Found 1 tfevent" <<<"$output" && found=yes
  printf 'wandb %s sync %s: event file found: %s; status %s; %s\n' "$1" "${2:-tb}" "$found" "$status" \
    "$(grep -o "No runs to sync" <<<"$output" || true)"
  [ "$found" = "$3" ] || changed=1
}
check 0.28.0 "" yes
check 0.28.1 "" no
check 0.28.1 "--legacy" yes
exit $changed

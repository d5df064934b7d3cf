#!/usr/bin/env bash
# A NaN survives Gloo's all_reduce with ReduceOp.MAX or MIN only by chance: of one element, that of process 0 reaches all
# processes, and that of any other process is replaced by a number, without an error. Of longer tensors each process wins in
# its share of the positions. torch.maximum returns NaN if either value is NaN, as its documentation says. A loop that asks
# for the largest loss or gradient norm of all processes, to stop or to skip a step if it is not finite, gets a finite one.
#
# Seen: torch 2.11.0 from PyPI, 2 and 3 processes. Source: gloo/math.h, max and min: std::max(x, y) and std::min(x, y), which
# return x if the comparison is false, as each comparison with NaN is.
#
# Installs about 3 GB in a temporary folder. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check torch==2.11.0 ||
  { echo "skipped: torch 2.11.0 cannot be installed here"; exit 77; }

cat > reduce.py <<'PYTHON'
import sys

import torch
import torch.distributed as dist

rank, world = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo", store=dist.FileStore(f"store{world}", world), rank=rank, world_size=world)


def share(op, elements, owner):
    """Returns the part of the positions that are NaN afterwards, if process `owner` alone has NaN everywhere."""
    values = torch.full((elements,), float("nan") if rank == owner else 1.0)
    dist.all_reduce(values, op)
    return values.isnan().float().mean().item()


as_seen = torch.maximum(torch.tensor(1.0), torch.tensor(float("nan"))).isnan().item()
for name, op in (("MAX", dist.ReduceOp.MAX), ("MIN", dist.ReduceOp.MIN)):
    one = [share(op, 1, owner) for owner in range(world)]
    many = [share(op, 6000, owner) for owner in range(world)]
    if rank == 0:
        for owner in range(world):
            print(f"{world} processes, {name}, NaN of process {owner}: {'stays' if one[owner] else 'is lost'} in a tensor of"
                  f" 1 element, in {many[owner]:.0%} of 6000")
    as_seen = as_seen and one == [1.0] + [0.0] * (world - 1) and all(0 < part < 1 for part in many)
dist.destroy_process_group()
sys.exit(0 if as_seen else 1)
PYTHON
changed=0
for world in 2 3; do
  running=()
  for rank in $(seq 0 $((world - 1))); do
    venv/bin/python reduce.py "$rank" "$world" 2> "log$rank" &
    running+=($!)
  done
  for process in "${running[@]}"; do wait "$process" || changed=1; done
done
exit $changed

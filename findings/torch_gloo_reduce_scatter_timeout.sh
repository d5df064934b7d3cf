#!/usr/bin/env bash
# Work.wait(timeout) of Gloo's reduce_scatter_tensor takes no notice of its timeout: it returns when the last process
# has taken part, however late. The waits of all_reduce, broadcast and all_gather_into_tensor end in time, with
# "Operation timed out!". So a program that waits in slices, to look at its peers in between, cannot do so within the
# backward pass of fully_shard (FSDP2), which sums by reduce_scatter_tensor.
#
# Seen: torch 2.11.0 from PyPI (2.15 too). In ProcessGroupGloo.cpp, reduce_scatter_tensor_coalesced returns work whose
# wait() calls that of an all_reduce without the timeout.
#
# Installs about 3 GB in a temporary folder. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check torch==2.11.0 ||
  { echo "skipped: torch 2.11.0 cannot be installed here"; exit 77; }

cat > wait.py <<'PYTHON'
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LATE = 4  # seconds after which process 1 takes part
rank = int(sys.argv[1])
dist.init_process_group("gloo", store=dist.FileStore("store", 2), rank=rank, world_size=2)
part, whole = torch.ones(4), torch.ones(8)
collectives = {
    "all_reduce": lambda group: dist.all_reduce(part, group=group, async_op=True),
    "broadcast": lambda group: dist.broadcast(part, 1, group=group, async_op=True),
    "all_gather_into_tensor": lambda group: dist.all_gather_into_tensor(whole, part, group=group, async_op=True),
    "reduce_scatter_tensor": lambda group: dist.reduce_scatter_tensor(part, whole, group=group, async_op=True),
}
groups = {name: dist.new_group() for name in collectives}
in_time, start = {}, time.monotonic()
for number, (name, begin) in enumerate(collectives.items()):
    at = start + number * (LATE + 1) + (LATE if rank == 1 else 0)
    time.sleep(max(0.0, at - time.monotonic()))
    work, began = begin(groups[name]), time.monotonic()
    try:
        work.wait(timedelta(seconds=0.25) if rank == 0 else timedelta(seconds=30))
        said = "returned"
    except RuntimeError as error:
        said = f"raised {str(error)[-24:]!r}"
    seconds = time.monotonic() - began
    in_time[name] = seconds < LATE / 2
    if rank == 0:
        print(f"{name}: {said} after {seconds:.1f} s", flush=True)
if rank == 0:
    expected = {name: name != "reduce_scatter_tensor" for name in collectives}
    sys.exit(0 if in_time == expected else 1)
PYTHON
venv/bin/python wait.py 1 > other.log 2>&1 &
venv/bin/python wait.py 0

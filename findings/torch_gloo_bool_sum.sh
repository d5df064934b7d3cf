#!/usr/bin/env bash
# The sum of a bool tensor over Gloo is a sum of bytes, without a word: all_reduce with the default ReduceOp.SUM makes True
# from 255 or 257 true values and False from 256. So "has any process ended?" is answered with no when 256 processes have, or
# when 2 processes add into the same tensor for the 8th time. NCCL takes the maximum instead, by which SUM of bool is a
# logical or in every case: the same program gives another answer on CPUs.
#
# Seen: torch 2.11.0 from PyPI. Source: ProcessGroupGlooDetail.hpp, GENERATE_ALL_TYPES: bool is uint8_t. Compare with
# getNcclReduceOp of ProcessGroupNCCL.cpp, whose comment names this overflow. ReduceOp.MAX and BOR are right on both.
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

rank = int(sys.argv[1])
dist.init_process_group("gloo", store=dist.FileStore("store", 2), rank=rank, world_size=2)
answers = {}
for name, op in (("SUM", dist.ReduceOp.SUM), ("MAX", dist.ReduceOp.MAX), ("BOR", dist.ReduceOp.BOR)):
    ended = torch.tensor([True])
    answers[name] = []
    for _ in range(8):
        dist.all_reduce(ended, op)
        answers[name].append(ended.item())
    if rank == 0:
        print(f"{name}: True and True, 8 times in place: {answers[name]}; byte {ended.view(torch.uint8).item()}")
dist.destroy_process_group()
sys.exit(0 if answers == {"SUM": [True] * 7 + [False], "MAX": [True] * 8, "BOR": [True] * 8} else 1)
PYTHON
venv/bin/python reduce.py 1 > other.log 2>&1 &
venv/bin/python reduce.py 0

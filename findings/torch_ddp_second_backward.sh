#!/usr/bin/env bash
# DistributedDataParallel averages the first backward pass after a forward pass and no further one: with
# loss.backward(retain_graph=True) and a second loss of the same output, the gradients of the second loss stay those of each
# process alone. No error, no warning; the replicas take different steps and drift apart. The sum of both losses in one
# backward pass is averaged, and so are two forward passes with a backward pass each.
#
# Seen: torch 2.11.0 from PyPI, Gloo, two processes. Source: torch/csrc/distributed/c10d/reducer.cpp: autograd_hook returns if
# expect_autograd_hooks_ is false, which finalize_backward sets and only the next forward pass (prepare_for_backward) undoes.
# PyTorch's issue 47260 is of the same cause.
#
# Installs about 3 GB in a temporary folder. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check torch==2.11.0 ||
  { echo "skipped: torch 2.11.0 cannot be installed here"; exit 77; }

cat > train.py <<'PYTHON'
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(sys.argv[1])
dist.init_process_group("gloo", store=dist.FileStore("store", 2), rank=rank, world_size=2)
batch = torch.tensor([[1.0 + 2 * rank]])  # 1 and 3, whose mean is 2


def separately(model):
    output = model(batch)
    output.sum().backward(retain_graph=True)
    (10 * output).sum().backward()


def together(model):
    output = model(batch)
    (output + 10 * output).sum().backward()


def forward_twice(model):
    model(batch).sum().backward()
    (10 * model(batch)).sum().backward()


gradients = {}
for work in (separately, together, forward_twice):
    model = DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    work(model)
    both = [torch.zeros(1, 1), torch.zeros(1, 1)]
    dist.all_gather(both, model.module.weight.grad)
    gradients[work.__name__] = [gradient.item() for gradient in both]
    if rank == 0:
        print(f"{work.__name__}: the gradients of the two processes are {gradients[work.__name__]}, right is [22.0, 22.0]")
dist.destroy_process_group()
expected = {"separately": [2.0 + 10, 2.0 + 30], "together": [22.0, 22.0], "forward_twice": [22.0, 22.0]}
sys.exit(0 if gradients == expected else 1)
PYTHON
venv/bin/python train.py 1 > other.log 2>&1 &
venv/bin/python train.py 0

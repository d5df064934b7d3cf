"""Plain PyTorch: @record, DistributedDataParallel over Gloo, a few steps; every rank ends with the same weights. With the
argument "fail" rank 1 raises after the first step; with "restart" it does so in the first attempt only."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

# Write whole lines: `python -u` would write the parts of a line separately, and workers of torchrun share a pipe.
sys.stdout.reconfigure(line_buffering=True, write_through=False)


@record
def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    assert dist.is_torchelastic_launched()
    assert (rank, world) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    total = torch.tensor([rank])
    dist.all_reduce(total)
    print("SUM", int(total), "OF", world, flush=True)
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        if rank == 1 and step == 1 and (mode == "fail" or mode == "restart" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"):
            raise ValueError("no such layer: conv9")
        optimizer.zero_grad()
        model(torch.ones(8, 4) * (rank + 1)).sum().backward()
        optimizer.step()
    weights = model.module.weight.detach().clone()
    dist.broadcast(weights, 0)
    assert torch.equal(weights, model.module.weight.detach())
    print("TRAINED", rank, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # PyTorch 2.11 occasionally aborts while the interpreter ends after a Gloo group, under any launcher.
    os._exit(0)

"""DistributedDataParallel over Gloo, a step every 50 ms, until the file argv[1] exists; prints the attempt at each hundredth
step, and at the end "DONE attempt N"."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("BEGAN attempt", attempt, flush=True)
stop = torch.zeros(1)
while not stop.item():
    optimizer.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    stop[0] = os.path.exists(sys.argv[1])
    dist.all_reduce(stop)
    time.sleep(0.05)
print("DONE attempt", attempt, flush=True)
# PyTorch 2.11 occasionally aborts while the interpreter ends after a Gloo group, under any launcher.
os._exit(0)

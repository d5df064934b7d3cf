"""The program that tools/bench/recovery runs under torchrun: Python DDP over Gloo, with a checkpoint after each epoch.

argv: STEPS_FILE CHECKPOINT STEPS_PER_EPOCH. Rank 0 appends "<step> <pid>" to STEPS_FILE after every step."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

steps_file, checkpoint, each = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
net = nn.Sequential(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                    nn.Linear(200, 32), nn.ReLU(), nn.Linear(32, 10))
step = 0
if os.path.exists(checkpoint):
    state = torch.load(checkpoint)
    net.load_state_dict(state["net"])
    step = state["step"]
net = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
images, labels = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
with open(steps_file, "a", encoding="ascii") as file:
    while True:
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
        step += 1
        if dist.get_rank() == 0:
            file.write(f"{step} {os.getpid()}\n")
            file.flush()
            if step % each == 0:
                torch.save({"net": net.module.state_dict(), "step": step}, checkpoint + ".new")
                os.replace(checkpoint + ".new", checkpoint)

"""One worker of tools/bench/python. argv: SIDE (replica, ddp) WHAT (step, handover, checkpoint) MODEL STEPS OUT. Rank 0 writes
OUT. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as for torch.distributed; the mtrun package is that of PYTHONPATH."""
import json
import os
import resource
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

side, what, name, steps, out = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
WARM = 3  # steps before the measured ones
BATCH = {"mlp-11m": 64, "mlp-100m": 32, "resnet18": 8}[name]
torch.set_num_threads(1)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                                  nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.short = nn.Identity() if before == after else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for before, after in ((64, 64), (64, 128), (128, 256), (256, 512)):
        layers += [Block(before, after, 1 if before == after else 2), Block(after, after, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def mlp(*widths):
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


model = {"mlp-11m": lambda: mlp(1024, 2048, 2048, 2048, 10), "mlp-100m": lambda: mlp(1024, *6 * [4096], 1024, 10),
         "resnet18": resnet18}[name]()
shape = (3, 64, 64) if name == "resnet18" else (1024,)
count = world * BATCH * (WARM + steps)
pool = torch.randn(4 * BATCH * world, *shape)
labels = torch.randint(10, (len(pool),))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
result = {"torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters())}


def loss_of(ids, network):
    first = ids[0] % len(pool)
    return nn.functional.cross_entropy(network(pool[first:first + len(ids)]), labels[first:first + len(ids)])


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def replica(**more):
    import mtrun
    from mtrun.replica import Replica
    sampler = mtrun.ElasticSampler(count, world * BATCH, BATCH, shuffle=False)
    job = mtrun.join()
    return job, Replica(job, model, optimizer, sampler, backend="gloo", **more)


class Clock:
    """Times the steps between WARM and the last one."""

    def tick(self, step, loss):
        if step == WARM - 1:
            self.wall, self.cpu = time.perf_counter(), time.process_time()
        elif step == WARM + steps - 1:
            result.update(wall=(time.perf_counter() - self.wall) / steps, cpu=(time.process_time() - self.cpu) / steps,
                          loss=float(loss), mib=peak_mib())


def step_of_replica():
    _, run = replica()
    clock = Clock()
    for taken in run.steps(lambda ids: loss_of(ids, model)):
        clock.tick(taken.step, taken.loss)


def step_of_ddp():
    dist.init_process_group("gloo")
    network = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    clock = Clock()
    for step in range(WARM + steps):
        optimizer.zero_grad(set_to_none=True)
        first = (step * world + rank) * BATCH
        loss = loss_of(range(first, first + BATCH), network)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if step == WARM + steps - 1:
            dist.all_reduce(mean)  # once, to compare the work
        clock.tick(step, mean / world)


def fill_optimizer():
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    for p in model.parameters():
        p.grad = None


def timed(call):
    """Returns wall seconds between two barriers, and by how much the peak memory of the two workers grew, in MiB."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # restarts VmHWM
    before = hwm_mib()
    dist.barrier()
    began = time.perf_counter()
    call()
    dist.barrier()
    took = time.perf_counter() - began
    grown = torch.tensor([hwm_mib() - before])
    both = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(both, grown)
    return took, [each.item() for each in both]


def hwm_mib():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def handover_of_replica():
    from mtrun.torch import interruptible, regroup
    job, run = replica()
    if rank == 0:
        fill_optimizer()
        run._knows = True
        run.sampler.advance()
    regroup(job, "gloo")

    def share():
        with interruptible(job):
            run._share()

    result["seconds"], result["grown"] = timed(share)
    assert run.sampler.step == 1 and len(optimizer.state) == len(list(model.parameters()))


def handover_of_ddp():
    """The same bytes by dist.broadcast, into tensors that exist."""
    dist.init_process_group("gloo")
    fill_optimizer()
    tensors = [p.detach() for p in model.parameters()]
    tensors += [value for state in optimizer.state.values() for value in state.values() if value.dim()]

    def send():
        for tensor in tensors:
            dist.broadcast(tensor, 0)

    result["seconds"], result["grown"] = timed(send)
    result["bytes"] = sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def checkpoint_of_replica():
    with tempfile.TemporaryDirectory() as folder:
        _, run = replica(folder=folder, checkpoint_steps=1)
        stalls, cpu, files, save = [], [], [], run._save_if_due

        def timed_save():
            began, used = time.perf_counter(), time.thread_time()
            save()
            stalls.append(time.perf_counter() - began)
            cpu.append(time.thread_time() - used)
            run._saver._thread.join()  # so that no save waits for the one before
            files.append(time.perf_counter() - began)

        run._save_if_due = timed_save
        for _ in run.steps(lambda ids: loss_of(ids, model)):
            pass
        newest = max(size_of(os.path.join(folder, each)) for each in os.listdir(folder) if each.startswith("replica_"))
    result.update(stalls=stalls, cpu=cpu, files=files, bytes=newest, mib=peak_mib())


def size_of(path):
    """Returns the bytes of a file or a folder of files."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


globals()[f"{what}_of_{side}"]()
if dist.is_initialized() and side == "ddp":
    dist.destroy_process_group()
if rank == 0:
    with open(out, "w", encoding="utf-8") as file:
        json.dump(result, file)

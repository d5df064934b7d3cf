"""The Python side of tools/bench/step: the same network, recipe and samples as ours; started once per rank.

Writes {"ends": [seconds at the end of a step, ...], "every": steps between two of them, "losses": [of the first steps],
"mib", "torch"} as JSON, with times since the start of the first step."""
import json
import os
import resource
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file

name, data, weights, micro, steps, threads, channels_last, amp, device, mode, parity, out = sys.argv[1:]
micro, steps = int(micro), int(steps)
sys.path.insert(0, parity)
import models  # noqa: E402
from resnet18 import ResNet18  # noqa: E402

COMPARED = 5  # first steps whose losses are compared
MASK = (1 << 64) - 1
torch.set_num_threads(int(threads))
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
cuda = device == "cuda"
device = torch.device("cuda", rank) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
model = {"cnnA": models.CnnA, "cnnB": models.CnnB, "vit": models.ViT, "diffusion": lambda: models.UNet(channels=32),
         "resnet18": lambda: ResNet18(10)}[name]()
model.load_state_dict(load_file(weights), strict=True)
model = model.to(device)
conv = channels_last == "1"
if conv:
    model = model.to(memory_format=torch.channels_last)
body = model
if name == "resnet18":
    for parameter_name, parameter in model.named_parameters():
        parameter.requires_grad_(parameter_name.startswith("fc."))
if world > 1:
    torch.distributed.init_process_group("nccl" if cuda else "gloo")
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank] if cuda else None)
body.train(name != "resnet18")
if mode == "compile":
    model = torch.compile(model, mode="reduce-overhead" if cuda else None)
trained = [p for p in body.parameters() if p.requires_grad]
adam = {"fused": True, "capturable": mode == "graph"}
optimizer = {"cnnA": lambda: torch.optim.SGD(trained, lr=1e-3, fused=True),
             "cnnB": lambda: torch.optim.AdamW(trained, lr=1e-4, weight_decay=1e-4, **adam),
             "vit": lambda: torch.optim.AdamW(trained, lr=3e-4, weight_decay=1e-4, **adam),
             "diffusion": lambda: torch.optim.AdamW(trained, lr=2e-4, **adam),
             "resnet18": lambda: torch.optim.Adam(trained, lr=1e-3, **adam)}[name]()
with safe_open(data + "/train/shard_00000.safetensors", "pt") as f:
    images, labels = f.get_slice("images"), f.get_slice("labels")
    rows = min(steps * world * micro, images.get_shape()[0])  # wraps around if there are too few
    images, labels = images[:rows], labels[:rows]
pad = (32 - images.shape[1]) // 2
if pad and name != "resnet18":
    images = F.pad(images, (0, 0, pad, pad, pad, pad))
images, labels = images.to(device), labels.to(device)
whole = len(images) // micro * micro
alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64), 0).float().to(device)


def splitmix(x):
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def fnv(text):
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def words(purpose, step, count):
    """Returns the first `count` words of our stream (docs/formats.md, "Random numbers"): seed 0, this micro-batch."""
    key = splitmix(splitmix(0) ^ fnv(purpose))
    half = np.uint64(0xFFFFFFFF)
    c = [np.arange((count + 3) // 4, dtype=np.uint64), np.uint64(rank), np.uint64(step), np.uint64(0)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [q >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]), q & half, p >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]), p & half]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(np.broadcast_arrays(*c), axis=1).reshape(-1)[:count]


def draw(step):
    """Returns times and noise of the diffusion, identical to ours in the compared steps."""
    shape = (micro, 3, 32, 32)
    if step >= COMPARED:
        return torch.randint(1000, (micro,), device=device), torch.randn(shape, device=device)
    uniform = (words("time", step, micro) >> np.uint64(8)).astype(np.float32) / np.float32(2**24)
    bits = words("noise", step, micro * 3072).reshape(-1, 2).astype(np.float64)
    radius, angle = np.sqrt(-2 * np.log((bits[:, 0] + 1) / 2**32)), 2 * np.pi * bits[:, 1] / 2**32
    noise = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32).reshape(shape)
    times = np.floor(uniform * np.float32(1000)).astype(np.int64)
    return torch.from_numpy(times).to(device), torch.from_numpy(noise).to(device)


def batch(step):
    first = (step * world + rank) * micro % whole
    return (images[first:first + micro], labels[first:first + micro], *(draw(step) if name == "diffusion" else ()))


def loss_of(pixels, y, t=None, noise=None):
    x = (pixels.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
    if conv:
        x = x.contiguous(memory_format=torch.channels_last)
    with torch.autocast(device.type, torch.bfloat16, enabled=amp == "bf16"):
        if name == "diffusion":
            ab = alpha_bar[t].view(-1, 1, 1, 1)
            return F.mse_loss(model(ab.sqrt() * x + (1 - ab).sqrt() * noise, t).float(), noise)
        if name == "resnet18":
            x = F.interpolate(x, size=224, mode="bilinear", align_corners=False)
        return F.cross_entropy(model(x).float(), y)


def train(*inputs):
    if mode == "compile" and cuda:
        torch.compiler.cudagraph_mark_step_begin()
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(*inputs)
    loss.backward()
    optimizer.step()
    return loss


losses = []
if mode == "graph":  # as in PyTorch's documentation
    still = [tensor.clone() for tensor in batch(0)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        losses.append(train(*still).detach().clone())
        for _ in range(2):
            train(*still)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        graph_loss = loss_of(*still)
        graph_loss.backward()
        optimizer.step()

    def take(step):
        for to, new in zip(still, batch(step)):
            to.copy_(new)
        graph.replay()
        return graph_loss
else:
    def take(step):
        return train(*batch(step))

every, ends = 10 if cuda else 1, []
began = time.perf_counter()
for step in range(steps):
    loss = take(step)
    if mode != "graph" and step < COMPARED:
        losses.append(loss.detach().clone())
    if step % every == every - 1:
        if cuda:
            torch.cuda.synchronize()
        ends.append(time.perf_counter() - began)
losses = torch.stack(losses).double().to(device)
if world > 1:
    torch.distributed.all_reduce(losses)
if rank == 0:
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"ends": ends, "every": every, "losses": (losses / world).tolist(), "torch": torch.__version__,
                   "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}, file)
if world > 1:
    torch.distributed.destroy_process_group()

#!/usr/bin/env python3
"""Trains a small transformer on the bytes of a text. Its weights, gradients and optimizer are sharded over the workers
of each node (PyTorch's fully_shard), the nodes are replicas of each other, and the run survives their loss.

  python train_transformer_hsdp.py
  mtrun --standalone --nproc_per_node 2 --max_restarts 10 train_transformer_hsdp.py --folder runs/hsdp
  mtrun --hosts node1,node2 --nproc_per_node 2 --max_restarts 10 train_transformer_hsdp.py --folder runs/hsdp

The default text is that of Python's own help(), about 700 kB, which each Python has; --text FILE reads another one.
Losses do not depend on the number of nodes and workers: --float64 shows more digits.
"""
import argparse
import os
import pydoc_data.topics
import time

import mtrun
import torch
from torch.distributed.fsdp import fully_shard

BYTES = 256


class Text(torch.utils.data.Dataset):
    """Windows of a text: (bytes [length], the byte after each of them [length])."""

    def __init__(self, text, length, size):
        self.bytes, self.length = torch.frombuffer(bytearray(text), dtype=torch.uint8).long(), length
        self.size = min(size, (len(self.bytes) - 1) // length)

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        window = self.bytes[index * self.length:(index + 1) * self.length + 1]
        return window[:-1], window[1:]


class Transformer(torch.nn.Module):
    """Predicts the byte after each byte: bytes [batch, length] -> logits [batch, length, BYTES]."""

    def __init__(self, width, depth, heads, length):
        super().__init__()
        self.bytes, self.places = torch.nn.Embedding(BYTES, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
            for _ in range(depth))
        self.norm, self.out = torch.nn.LayerNorm(width), torch.nn.Linear(width, BYTES)

    def forward(self, x):
        length, dtype = x.shape[1], self.places.weight.dtype
        mask = torch.nn.Transformer.generate_square_subsequent_mask(length, device=x.device, dtype=dtype)
        x = self.bytes(x) + self.places(torch.arange(length, device=x.device))
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.out(self.norm(x))


def shard(model, mesh):
    """Divides each block, and what is outside of them, among the workers of a node. Called in each generation."""
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="folder of the run, for a program that continues [none]")
    parser.add_argument("--text", metavar="FILE", help="what to learn [the topics of Python's help()]")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--size", type=int, default=4096, help="windows of the text, at most")
    parser.add_argument("--length", type=int, default=64, help="bytes of a window")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=2, help="blocks")
    parser.add_argument("--global_batch", type=int, default=64, help="windows per step, over all workers")
    parser.add_argument("--batch_size", type=int, default=8, help="windows that a worker processes at once")
    parser.add_argument("--checkpoint_steps", type=int, default=20)
    parser.add_argument("--step_seconds", type=float, default=0, help="pause after a step, to leave time to kill workers")
    parser.add_argument("--float64", action="store_true")
    return parser.parse_args()


def read(path):
    """Returns the text as bytes."""
    if path is None:
        return "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items())).encode()
    with open(path, "rb") as file:
        return file.read()


def main():
    args = parse()
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(1)
    torch.manual_seed(0)
    dataset = Text(read(args.text), args.length, args.size)
    model = Transformer(args.width, args.depth, 4, args.length).to(device)
    if args.float64:
        model = model.double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sampler = mtrun.ElasticSampler(len(dataset), args.global_batch, args.batch_size, args.epochs)
    loader = mtrun.Loader(dataset, sampler)

    with mtrun.join() as job:
        replica = mtrun.Replica(job, model, optimizer, sampler, args.folder, checkpoint_steps=args.checkpoint_steps,
                                shard=shard)
        generation = 0
        for step in replica.train(loader):
            for inputs, wanted in step:
                logits = model(inputs.to(device))
                step.backward(torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.to(device).flatten()))
            step.apply(max_norm=1.0)
            if step.applied is None:  # not committed, because the generation has ended: it comes again
                continue
            if step.applied.generation != generation:
                generation = step.applied.generation
                print(f"generation {generation}: rank {job.rank} of {job.world_size} is pid {os.getpid()}", flush=True)
            if job.rank == 0:
                print(f"step {step.number} epoch {step.epoch + 1} loss {step.loss:.15g} "
                      f"with {job.world_size} workers", flush=True)
            time.sleep(args.step_seconds)


if __name__ == "__main__":
    main()

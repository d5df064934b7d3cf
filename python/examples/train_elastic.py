#!/usr/bin/env python3
"""Trains a small network on made-up images with PyTorch over Gloo (NCCL where there are GPUs) and survives `kill -9` of
workers and nodes in place.

  python train_elastic.py                                                        # alone
  mtrun --nnodes 1:3 --nproc_per_node 2 --max_restarts 10 --rdzv_endpoint HOST:29400 train_elastic.py --folder runs/elastic

Kill what you like; what is left goes on after the step. When it is done `tools/verify_ledger runs/elastic` proves that each
sample was taken exactly once an epoch (--partial: a run that has not ended). The loss of a step is the same with any number
of workers.
"""
import argparse
import os
import time

import mtrun
import torch
from mtrun.replica import Replica

CLASSES, SIDE = 10, 8
DATA = "made-up"


def made_up_data(size):
    """Returns one pattern per class plus noise: images [size, 1, SIDE, SIDE], labels [size]."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(size) % CLASSES
    patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=generator)
    return patterns[labels] + 0.8 * torch.randn(size, 1, SIDE, SIDE, generator=generator), labels


def make_model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(16 * (SIDE // 2) ** 2, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="folder for the ledger and checkpoints [none]")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--size", type=int, default=2000, help="images")
    parser.add_argument("--global_batch", type=int, default=64, help="images per step, over all workers")
    parser.add_argument("--batch_size", type=int, default=8, help="images that a worker processes at once")
    parser.add_argument("--step_seconds", type=float, default=0, help="minimum duration of a step, to leave time to kill workers")
    parser.add_argument("--float64", action="store_true")
    return parser.parse_args()


def main():
    args = parse()
    torch.set_num_threads(1)
    images, labels = made_up_data(args.size)
    model = make_model()
    if args.float64:
        images, model = images.double(), model.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = mtrun.ElasticSampler(args.size, args.global_batch, args.batch_size, epochs=args.epochs)

    with mtrun.join() as job:
        def loss_of(ids):
            with job.loads():
                inputs, wanted = images[ids], labels[ids]
            return torch.nn.functional.cross_entropy(model(inputs), wanted)

        replica = Replica(job, model, optimizer, sampler, folder=args.folder, data=DATA, checkpoint_steps=50)
        generation = 0
        for taken in replica.steps(loss_of):
            if taken.generation != generation:
                generation = taken.generation
                print(f"generation {generation}: rank {job.rank} of {job.world_size} is pid {os.getpid()}", flush=True)
            if job.rank == 0:
                print(f"step {taken.step} epoch {taken.epoch + 1} loss {taken.loss:.15g} "
                      f"with {taken.world_size} workers", flush=True)
            time.sleep(args.step_seconds)
        if sampler.finished and job.rank == 0:
            with torch.no_grad():
                right = (model(images).argmax(1) == labels).double().mean().item()
            print(f"done: {100 * right:.1f} % of the images are correct", flush=True)
            if args.folder:  # records the intended length and the end of the run, which a proof of the whole run needs
                mtrun.Ledger(args.folder, sampler, DATA).finish("train_elastic", {}, {"accuracy": right})


if __name__ == "__main__":
    main()

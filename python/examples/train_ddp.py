#!/usr/bin/env python3
"""Trains a small network on made-up images with DistributedDataParallel: data loading in processes of its own, random
augmentation, dropout, clipped gradients and a cosine schedule. train_ddp_elastic.py is the same program with ten changed
lines, and survives the loss of its workers.

  torchrun --nproc_per_node 2 train_ddp.py
"""
import argparse
import os

import torch
import torch.distributed as dist

CLASSES, SIDE = 10, 8


class Images(torch.utils.data.Dataset):
    """One pattern per class plus noise: (image [1, SIDE, SIDE], label), half of the images mirrored at random."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.arange(size) % CLASSES
        self.images = torch.randn(CLASSES, 1, SIDE, SIDE, generator=generator)[self.labels]
        self.images += 0.8 * torch.randn(size, 1, SIDE, SIDE, generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        return image.flip(-1) if torch.rand(()) < 0.5 else image, self.labels[index]


def make_model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Dropout(0.1), torch.nn.Linear(16 * (SIDE // 2) ** 2, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="folder of the run, for a program that continues [none]")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--size", type=int, default=2000, help="images")
    parser.add_argument("--global_batch", type=int, default=64, help="images per step, over all workers")
    parser.add_argument("--batch_size", type=int, default=32, help="images that a worker processes at once")
    args = parser.parse_args()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else torch.device("cpu")

    dist.init_process_group()
    torch.manual_seed(0)
    dataset = Images(args.size)
    model = torch.nn.parallel.DistributedDataParallel(make_model().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    sampler = torch.utils.data.DistributedSampler(dataset)
    loader = torch.utils.data.DataLoader(dataset, args.batch_size, sampler=sampler, num_workers=2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    criterion = torch.nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
        if dist.get_rank() == 0:
            print(f"learning rate {optimizer.param_groups[0]['lr']:.4f}, loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

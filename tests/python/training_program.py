"""A training script with all that real ones have, which the tests start alone and under mtrun. Rank 0 prints each step's
loss, and the last digits of the final weights."""
import argparse
import math
import os
import random
import time

import mtrun
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

SIZE, FEATURES = 60, 6


class Made(torch.utils.data.Dataset):
    """Numbers with noise of every generator that a transform could use."""

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        features = torch.tensor([math.sin(index * (k + 1.0)) for k in range(FEATURES)], dtype=torch.float64)
        features += 0.1 * torch.rand(FEATURES, dtype=torch.float64) + 0.1 * random.random()
        return features, torch.tensor(features[:2].sum().item() > 0.3, dtype=torch.int64)


def mixed(samples):
    """Collates, and mixes neighbours with random weights, as mixup does."""
    features, labels = torch.utils.data.default_collate(samples)
    weight = 0.9 + 0.1 * torch.rand((), dtype=torch.float64)
    return weight * features + (1 - weight) * features.roll(1, 0), labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes that load data, of each worker")
    parser.add_argument("--scaler", action="store_true", help="loss scaling in float32; step 1 has infinite gradients")
    parser.add_argument("--patience", type=int, default=0)
    parser.add_argument("--step_seconds", type=float, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dtype = torch.float32 if args.scaler else torch.float64
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(),
                                torch.nn.Dropout(0.2), torch.nn.Linear(16, 2)).to(dtype)
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.AdamW([{"params": [model[0].weight, model[0].bias], "weight_decay": 0.1},
                                   {"params": [*model[1].parameters(), *model[4].parameters()], "lr": 0.02}], lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    sampler = mtrun.ElasticSampler(SIZE, 18, 4, args.epochs, seed=5)
    loader = mtrun.Loader(Made(), sampler, num_workers=args.workers, collate_fn=mixed)
    criterion = torch.nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3) if args.scaler else None

    def measure(batch):
        features, labels = batch
        logits = ema(features.to(dtype))
        return {"loss": criterion(logits, labels) * len(labels), "accuracy": (logits.argmax(1) == labels).sum()}

    def tell(result):
        if job.rank == 0:
            print(f"eval {result.epoch} {result.means['loss']:.17g} {result.means['accuracy']:.17g}", flush=True)

    evaluation = mtrun.Evaluation(ema, Made(), measure, micro_batch=7, monitor="loss", mode="min", patience=args.patience,
                                  on_result=tell, num_workers=args.workers)
    with mtrun.join() as job:
        replica = mtrun.Replica(job, model, optimizer, sampler, args.folder, checkpoint_steps=5, scaler=scaler,
                                evaluation=evaluation, more={"scheduler": scheduler, "ema": ema})
        generation = 0
        for step in replica.train(loader):
            for features, labels in step:
                loss = criterion(model(features.to(dtype)), labels)
                if args.scaler and step.epoch == 0 and step.number == 1:
                    loss = loss * 1e38  # beyond float32 when it is scaled
                step.backward(loss)
            if not step.apply(max_norm=1.0):
                continue
            scheduler.step()
            ema.update_parameters(model)
            if step.applied.generation != generation:
                generation = step.applied.generation
                print(f"generation {generation}: rank {job.rank} of {job.world_size} is pid {os.getpid()}", flush=True)
            if job.rank == 0:
                print(f"step {step.number} {step.loss:.17g} {step.norm.item():.17g} {int(step.skipped)}", flush=True)
            time.sleep(args.step_seconds)
        if replica.complete and job.rank == 0:
            numbers = [each.double().sum().item() for each in (*model.state_dict().values(), *ema.state_dict().values())]
            print("final", *(f"{number:.17g}" for number in numbers), flush=True)


if __name__ == "__main__":
    main()

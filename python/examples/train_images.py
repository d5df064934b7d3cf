#!/usr/bin/env python3
"""Trains torchvision's ResNet-18 on a folder of images, train/CLASS/*.jpg and val/CLASS/*.jpg, and survives the loss of its
workers. Images are read by processes of their own, with torchvision's transforms; each epoch is evaluated on all workers.

  mtrun --standalone --nproc_per_node 2 --max_restarts 10 train_images.py --data photos --folder runs/photos
"""
import argparse
import os

import mtrun
import torch
import torchvision
from torchvision.transforms import v2

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def images(folder, *shape):
    """Returns the images below a folder, with transforms that make them of one shape."""
    last = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    return torchvision.datasets.ImageFolder(folder, v2.Compose([*shape, *last]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with train/ and val/")
    parser.add_argument("--folder", help="folder of the run, for a program that continues [none]")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--global_batch", type=int, default=64, help="images per step, over all workers")
    parser.add_argument("--batch_size", type=int, default=16, help="images that a worker processes at once")
    parser.add_argument("--learning_rate", type=float, default=0.02)
    return parser.parse_args()


def main():
    args = parse()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    size = args.image_size
    train = images(os.path.join(args.data, "train"), v2.RandomResizedCrop(size, scale=(0.3, 1)), v2.RandomHorizontalFlip())
    test = images(os.path.join(args.data, "val"), v2.Resize(size), v2.CenterCrop(size))
    model = torchvision.models.resnet18(num_classes=len(train.classes)).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate, momentum=0.9, weight_decay=1e-4, nesterov=True)
    sampler = mtrun.ElasticSampler(len(train), args.global_batch, args.batch_size, args.epochs)
    loader = mtrun.Loader(train, sampler, num_workers=2, pin_memory=device.type == "cuda")
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader))
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(batch):
        pixels, labels = batch
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            return model(pixels.to(device, memory_format=torch.channels_last)).float(), labels.to(device)

    def measure(batch):
        logits, labels = forward(batch)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels, reduction="sum"), "accuracy": (logits.argmax(1) == labels).sum()}

    def tell(result):
        if job.rank == 0:
            print(f"epoch {result.epoch}: {100 * result.means['accuracy']:.1f} % of the test images", flush=True)

    job = mtrun.join()
    evaluation = mtrun.Evaluation(model, test, measure, micro_batch=args.batch_size, monitor="accuracy", on_result=tell, num_workers=2)
    replica = mtrun.Replica(job, model, optimizer, sampler, args.folder, more={"scheduler": scheduler}, evaluation=evaluation,
                            checkpoint_steps=sampler.steps_per_epoch)
    for step in replica.train(loader):
        for batch in step:
            step.backward(criterion(*forward(batch)))
        if step.apply(max_norm=5.0):
            scheduler.step()
    best = evaluation.best
    if replica.complete and best and job.rank == 0:
        print(f"best: {100 * best.means['accuracy']:.1f} % after epoch {best.epoch}", flush=True)


if __name__ == "__main__":
    main()

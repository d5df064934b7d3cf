"""The Accelerate program that tools/bench/frameworks runs, on CPUs: it saves its state every few steps and continues from the
newest one, at the same samples.

argv: FOLDER SAVE_EVERY (0: neither saves nor continues). Rank 0 appends "<step> <pid> <its first sample>" to FOLDER/steps
after every step."""
import os
import shutil
import sys
import time

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import set_seed

STEP_SECONDS = 0.05
EPOCHS = 100
folder, save_every = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return torch.full((16,), index / 4000), index


def newest():
    """Returns the number of steps of the newest saved state; 0 if there is none."""
    names = os.listdir(folder) if save_every else []
    return max((int(name.split("_")[1]) for name in names if name.startswith("state_") and "." not in name), default=0)


def save(step):
    """Saves to another name first: a kill while save_state writes leaves a part of the files."""
    path = f"{folder}/state_{step}"
    accelerator.save_state(path + ".part")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        os.rename(path + ".part", path)
        for name in os.listdir(folder):
            if name.startswith("state_") and name != f"state_{step}":
                shutil.rmtree(f"{folder}/{name}")


set_seed(0)
# Its order of samples depends on seed and epoch alone, so skip_first_batches finds the place again.
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
with open(f"{folder}/pid_{accelerator.process_index}", "w", encoding="ascii") as file:
    file.write(str(os.getpid()))
accelerator.wait_for_everyone()
step = newest()
accelerator.wait_for_everyone()
if step:
    accelerator.load_state(f"{folder}/state_{step}")
for epoch in range(step // len(loader), EPOCHS):
    loader.set_epoch(epoch)
    rest = accelerator.skip_first_batches(loader, step % len(loader))
    if hasattr(rest, "set_epoch"):
        rest.set_epoch(epoch)
    for inputs, numbers in rest:
        loss = torch.nn.functional.cross_entropy(model(inputs), numbers % 10)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        time.sleep(STEP_SECONDS)
        if accelerator.is_main_process:
            with open(f"{folder}/steps", "a", encoding="ascii") as file:
                file.write(f"{step} {os.getpid()} {numbers[0]}\n")
        if save_every and step % save_every == 0:
            save(step)

"""The Lightning program that tools/bench/frameworks runs: Trainer(strategy="ddp") on CPUs, which saves a checkpoint every few
steps and continues from the newest one.

argv: FOLDER SAVE_EVERY (0: neither saves nor continues). Rank 0 appends "<step> <pid> <its first sample>" to FOLDER/steps
after every step."""
import logging
import os
import sys
import time

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

STEP_SECONDS = 0.05
folder, save_every = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        return torch.full((16,), index / 4000), index


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def training_step(self, batch, _index):
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1] % 10)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.001)


class Steps(lightning.Callback):
    def on_train_start(self, trainer, _module):
        with open(f"{folder}/pid_{trainer.global_rank}", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    def on_train_batch_end(self, trainer, _module, _outputs, batch, _index):
        time.sleep(STEP_SECONDS)
        if trainer.is_global_zero:
            with open(f"{folder}/steps", "a", encoding="ascii") as file:
                file.write(f"{trainer.global_step} {os.getpid()} {batch[1][0]}\n")


lightning.seed_everything(0, verbose=False)
saver = [ModelCheckpoint(f"{folder}/saved", every_n_train_steps=save_every, save_last=True)] if save_every else []
trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_epochs=100,
                            callbacks=[Steps(), *saver], logger=False, enable_checkpointing=bool(saver),
                            enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), torch.utils.data.DataLoader(Numbers(), batch_size=8, shuffle=True), ckpt_path="last" if saver else None)

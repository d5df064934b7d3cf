"""Lightning's Trainer with strategy="ddp" on CPUs, as in its guide; it detects the launcher's environment itself."""
import os
import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_steps=4,
                            logger=False, enable_checkpointing=False, enable_progress_bar=False, default_root_dir=sys.argv[1])
trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4))
print("FITTED", trainer.global_rank, trainer.world_size, trainer.global_step, flush=True)
os._exit(0)  # see torch_ddp.py

"""What a Replica accepts as a model."""
from __future__ import annotations

import torch


def plain(model: torch.nn.Module) -> torch.nn.Module:
    """Returns the module whose state is saved: of a torch.compile'd model the original one, which has the same
    parameters and names without `_orig_mod`. ValueError if the model sums gradients or statistics itself."""
    model = getattr(model, "_orig_mod", model)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise ValueError("the model is wrapped in DistributedDataParallel, which would sum the gradients a second time and "
                         "cannot lose a worker: give the model itself")
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.SyncBatchNorm):
            raise ValueError(f"{name or 'the model'} is a SyncBatchNorm, which sums over the workers within a pass, so that the "
                             "result depends on their number: leave out convert_sync_batchnorm (a BatchNorm uses the samples "
                             "of a micro-batch, and its running statistics are the mean over all micro-batches of a step)")
    return model

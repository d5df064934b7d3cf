"""What a Replica accepts as a model."""
from __future__ import annotations

import torch


def plain(model: torch.nn.Module) -> torch.nn.Module:
    """Returns the module whose state is saved: of a torch.compile'd model the original one, which has the same
    parameters and names without `_orig_mod`. ValueError if the model sums gradients or statistics itself, or is
    sharded."""
    model = getattr(model, "_orig_mod", model)
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise ValueError("the model is wrapped in DistributedDataParallel, which would sum the gradients a second time and "
                         "cannot lose a worker: give the model itself")
    kinds = {type(each).__name__ for each in (model, *model.parameters())}
    if kinds & {"DTensor", "FullyShardedDataParallel"}:
        raise ValueError("the model is sharded already, with process groups that end with this generation: give the "
                         "model itself, and Replica(..., shard=lambda model, mesh: fully_shard(model, mesh=mesh))")
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.SyncBatchNorm):
            raise ValueError(f"{name or 'the model'} is a SyncBatchNorm, which sums over the workers within a pass, so that the "
                             "result depends on their number: leave out convert_sync_batchnorm (a BatchNorm uses the samples "
                             "of a micro-batch, and its running statistics are the mean over all micro-batches of a step)")
    return model

"""Applies summed gradients of which each worker of a node has only its shards."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mtrun import fsdp
from mtrun.update import Update

WHOLE_PARAMETERS = ("Adafactor", "Muon")  # optimizers that combine elements of a parameter


class ShardUpdate(Update):
    """As Update, but norm and infinite gradients are those of all shards: each worker adds its figures to the step's
    last sum."""

    def __init__(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None) -> None:
        super().__init__(optimizer, scaler)
        if type(optimizer).__name__ in WHOLE_PARAMETERS:
            raise ValueError(f"{type(optimizer).__name__} needs whole parameters, but each worker has only its shards: "
                             "use an optimizer that treats each element alone, such as AdamW or SGD, or leave out `shard`")
        self._figures = torch.zeros(0, 2, dtype=torch.float64)

    def figures(self, parameters: Callable[[], list[Any]], norm_type: float | None) -> torch.Tensor:
        found = torch.zeros(2, dtype=torch.float64)
        for p in parameters():
            if p.grad is None:  # no pass made it, and it has no element here
                p.grad = fsdp.wrapped(torch.zeros_like(fsdp.local_of(p.detach())), p)
            grad = fsdp.local_of(p.grad)
            if self.scaler:
                found[1] += (~torch.isfinite(grad)).sum().cpu()
            if norm_type == float("inf"):
                found[0] = max(found[0], grad.abs().max().double().cpu()) if grad.numel() else found[0]
            elif norm_type is not None:
                found[0] += grad.double().abs().pow(norm_type).sum().cpu()
        return found

    def take(self, figures: torch.Tensor) -> None:
        self._figures = figures

    def _unscale(self) -> None:
        assert self.scaler
        self._make_scale(self.scaler)
        inverse = self.scaler._scale.double().reciprocal().float()
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    fsdp.local_of(p.grad).mul_(inverse.to(fsdp.local_of(p.grad).device))
        found = self._figures[:, 1].sum().float().to(self.scaler._scale.device)
        state = self.scaler._per_optimizer_states[id(self.optimizer)]
        state["found_inf_per_device"] = {found.device: found}
        state["stage"] = torch.amp.grad_scaler.OptState.UNSCALED

    def _clip(self, parameters: list[Any], max_norm: float, norm_type: float) -> torch.Tensor:
        figures = self._figures[:, 0]
        norm = figures.max() if norm_type == float("inf") else figures.sum().pow(1.0 / norm_type)
        if self.scaler:
            norm = norm / self.scaler.get_scale()
        factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
        for p in parameters:
            grad = fsdp.local_of(p.grad)
            grad.mul_(factor.to(grad))
        return norm

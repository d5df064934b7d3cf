"""Applies summed gradients: unscales and clips them, and makes the optimizer's step."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

MOST_SKIPPED_IN_A_ROW = 64  # each halves the loss scale, so 65536 is then 2^-48: the scale is not the cause


class Update:
    """The optimizer of a run and, with mixed precision, its torch.amp.GradScaler. Every worker calls it with the same
    summed gradients, so all skip the same steps. ValueError if the optimizer cannot be used."""

    def __init__(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None) -> None:
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError("LBFGS computes the loss several times a step, but a step's gradients are summed once: use an "
                             "optimizer whose step() needs no closure")
        self.optimizer = optimizer
        self.scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self._skipped = 0  # in a row

    def scaled(self, loss: torch.Tensor) -> torch.Tensor:
        """Returns the loss to be differentiated."""
        return self.scaler.scale(loss) if self.scaler else loss

    def apply(self, step: int, parameters: list[torch.nn.Parameter], max_norm: float | None = None,
              norm_type: float = 2.0) -> tuple[bool, torch.Tensor | None]:
        """Makes the step, unless a gradient is infinite and there is a scaler. Returns (skipped, norm of the unscaled
        gradients before clipping, a tensor; None without `max_norm`). FloatingPointError after 65 skipped steps in a
        row."""
        if self.scaler:
            self._unscale()
        norm = None
        if max_norm is not None:
            norm = self._clip(parameters, max_norm, norm_type)
        skipped = self._make()
        self._skipped = self._skipped + 1 if skipped else 0
        if self._skipped > MOST_SKIPPED_IN_A_ROW:
            raise FloatingPointError(f"step {step}: gradients are not finite at any loss scale for {self._skipped} steps in a "
                                     "row; a lower learning rate, a warm-up or no autocast usually helps")
        return skipped, norm

    def figures(self, parameters: Callable[[], list[Any]], norm_type: float | None) -> torch.Tensor:  # noqa: ARG002
        """Returns what `take` needs of each worker, float64 numbers. `parameters()`: returns all trained ones. `norm_type`: None
        if gradients are not clipped."""
        return torch.zeros(0, dtype=torch.float64)

    def take(self, figures: torch.Tensor) -> None:
        """Takes the figures of the workers that hold one replica, a row for each. Call before `apply`."""

    def _unscale(self) -> None:
        assert self.scaler
        self._make_scale(self.scaler)
        self.scaler.unscale_(self.optimizer)

    def _make_scale(self, scaler: torch.amp.GradScaler) -> None:
        """Makes the scale, which PyTorch makes in the first pass: a worker without a micro-batch has made none yet."""
        scaler.scale(torch.zeros((), device=self.optimizer.param_groups[0]["params"][0].device))

    def _clip(self, parameters: list[torch.nn.Parameter], max_norm: float, norm_type: float) -> torch.Tensor:
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def _make(self) -> bool:
        if not self.scaler:
            self.optimizer.step()
            return False
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale() < before  # an infinite gradient always lowers it, and nothing else does

"""This worker's part of a sharded parameter, as `Gradients` sees a parameter."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mtrun import fsdp


class LocalShard:
    """Has the attributes of a plain parameter. `grad`: a plain tensor within the parameter's own gradient, which
    fully_shard makes."""

    def __init__(self, parameter: Any) -> None:
        self._parameter = parameter
        self.local = fsdp.local_of(parameter.detach())
        self.dtype, self.device, self.shape = self.local.dtype, self.local.device, self.local.shape
        self.numel, self.element_size, self.stride = self.local.numel, self.local.element_size, self.local.stride

    @property
    def grad(self) -> torch.Tensor | None:
        grad = self._parameter.grad
        return None if grad is None else grad._local_tensor

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        if value is None:
            self._parameter.grad = None
            return
        if self._parameter.grad is None:
            self._parameter.grad = fsdp.wrapped(value, self._parameter)
        self._parameter.grad._local_tensor = value

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Any:
        return self._parameter.register_post_accumulate_grad_hook(hook)

"""Finds parameters that the loss does not depend on."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch


class FirstUse:
    """Watches the first step of a process. `begin` again if the model gets new parameters before it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._done = False
        self._hooks: list[Any] = []
        self.begin(model)

    def begin(self, model: torch.nn.Module) -> None:
        self._unused: dict[str, torch.nn.Parameter] = {}
        if self._done:
            return
        self._remove_hooks()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self._unused[name] = parameter
                self._hooks.append(parameter.register_post_accumulate_grad_hook(self._seen(name)))

    def _seen(self, name: str) -> Callable[[torch.Tensor], object]:
        return lambda _: self._unused.pop(name, None)

    def report(self, rank: int, step: int) -> None:
        """Call after the first step's passes. Rank 0, which has some in every step, prints the names."""
        if self._hooks and self._unused and rank == 0:
            print(f"mtrun: the loss of this worker's micro-batches of step {step} does not depend on {_list([*self._unused])}: "
                  "if no loss does, freeze them with requires_grad_(False), because weight decay would still change them",
                  file=sys.stderr)
        self._remove_hooks()
        self._done = True

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


def _list(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more parameters" if len(names) > most else "")

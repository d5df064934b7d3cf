"""A copy of a state in memory that is used again for the next one."""
from __future__ import annotations

from typing import Any

import torch

from mtrun.tensor_memory import dense_strides
from mtrun.trees import map_tensors


class Snapshot:
    """Keeps its memory, which is page-locked for tensors of a GPU. Only one copy at a time: take() overwrites it."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, torch.Tensor]] = []

    def take(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state with copies of its tensors, which share memory if the tensors do (tied weights)."""
        targets, sources = [], []
        copies: dict[Any, torch.Tensor] = {}

        def copied(tensor: torch.Tensor) -> torch.Tensor:
            tensor = tensor.detach()
            if tensor.layout != torch.strided or tensor.is_quantized:
                return tensor.cpu().clone()
            key = tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device
            if key not in copies:
                copies[key] = self._place(len(copies), tensor)
                targets.append(copies[key])
                sources.append(tensor)
            return copies[key]

        copy = map_tensors(state, copied)
        del self._kept[len(copies):]
        if targets:
            torch._foreach_copy_(targets, sources, non_blocking=True)
        for device in {tensor.device for tensor in sources if tensor.is_cuda}:
            torch.cuda.current_stream(device).synchronize()
        return copy

    def _place(self, index: int, tensor: torch.Tensor) -> torch.Tensor:
        strides, pinned = dense_strides(tensor), tensor.is_cuda
        wanted = tensor.shape, strides, tensor.dtype, pinned
        if index >= len(self._kept) or self._kept[index][0] != wanted:
            del self._kept[index:]
            self._kept.append((wanted, torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, pin_memory=pinned)))
        return self._kept[index][1]

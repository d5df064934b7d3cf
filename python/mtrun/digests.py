"""Digests of tensors and states, by which workers find out whether theirs are equal."""
from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import torch

from mtrun.tensor_memory import memory_of
from mtrun.trees import map_tensors

MASK63 = (1 << 63) - 1
PIECE_BYTES = 16 << 20  # of a tensor that has to be copied: it is on a GPU or not in one row


def digest_of(tensors: Iterable[torch.Tensor]) -> int:
    """Returns a number of 63 bits for the values of these tensors."""
    found = hashlib.sha256()
    for tensor in tensors:
        _add(found, tensor)
    return _number(found)


def digest_of_state(state: Any) -> int:
    """Returns a number of 63 bits for a state. Equal states can have different ones if objects in them have no repr()
    that is the same in every process; different states have not."""
    tensors = []

    def noted(tensor: torch.Tensor) -> torch.Tensor | None:
        tensors.append(tensor)
        return tensor.new_empty(0, device="meta") if tensor.layout == torch.strided else None

    found = hashlib.sha256(repr(map_tensors(state, noted)).encode())
    for tensor in tensors:
        found.update(repr((tensor.dtype, tensor.shape)).encode())
        _add(found, tensor if tensor.layout == torch.strided else tensor.to_dense())
    return _number(found)


def _number(found: hashlib._Hash) -> int:
    return int.from_bytes(found.digest()[:8], "little") & MASK63


def _add(found: hashlib._Hash, tensor: torch.Tensor) -> None:
    for part in _rows(tensor.detach()):
        found.update(memory_of(part))


def _rows(tensor: torch.Tensor) -> Iterable[torch.Tensor]:
    """Returns the tensor in parts that are rows in memory, without a copy if it is one itself."""
    if tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_conj():
        return [tensor]
    if tensor.dim() == 0 or tensor.numel() == 0:
        return [tensor.reshape(-1).cpu()]
    row = tensor[0].numel() * tensor.element_size()
    return (part.contiguous().resolve_conj().cpu() for part in tensor.split(max(1, PIECE_BYTES // max(1, row))))

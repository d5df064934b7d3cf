"""Hands the state of one worker to others. Names, shapes and values that are not tensors travel once, as a skeleton. The
tensors follow from the giver's memory into that of the takers, by broadcasts in which all workers of the generation take
part, so the number of takers does not matter and no worker holds a second copy."""
from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import torch

from mtrun.job import Job
from mtrun.torch import finish, start
from mtrun.trees import map_tensors

PIECE_BYTES = 32 << 20   # of one broadcast, and of the memory of a worker that only passes the state on
SMALL_BYTES = 256 << 10  # tensors below share broadcasts


def give(job: Job, state: dict[str, Any], group: Any = None) -> None:
    """Sends a state to all other workers, of a process group if given, which take() it or pass_on(). Call within
    `mtrun.torch.interruptible`."""
    tensors: list[torch.Tensor] = []
    skeleton = map_tensors(state, lambda tensor: _outline(tensor, tensors))
    file = io.BytesIO()
    torch.save({"state": skeleton, "devices": [tensor.device.type for tensor in tensors]}, file)
    text = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
    _broadcast(job, torch.tensor([text.numel()]), job.rank, group)
    _broadcast(job, text, job.rank, group)
    rows = [_row(tensor) for tensor in tensors]
    for piece, _ in plan_pieces([(row.numel(), row.device.type) for row in rows]):
        parts = [rows[index][begin:end] for index, begin, end in piece]
        _broadcast(job, parts[0] if len(parts) == 1 else torch.cat(parts), job.rank, group)


def take(job: Job, source: int, own: dict[str, Any], group: Any = None) -> dict[str, Any]:
    """Returns the state of rank `source`. `own`: this worker's state, whose tensors are overwritten if they fit (same
    place, shape, dtype and strides); others are made. If this raises, they are partly overwritten."""
    said = _receive_skeleton(job, source, group)
    devices = {kind: _device(own, kind) for kind in set(said["devices"])}
    tensors: list[torch.Tensor] = []
    state = _fit(said["state"], own, iter([devices[kind] for kind in said["devices"]]), tensors)
    rows = [_row(tensor.detach()) for tensor in tensors]
    for piece, _ in plan_pieces([(row.numel(), row.device.type) for row in rows]):
        parts = [rows[index][begin:end] for index, begin, end in piece]
        if len(parts) == 1:
            _broadcast(job, parts[0], source, group)
        else:
            together = torch.empty(sum(part.numel() for part in parts), dtype=torch.uint8, device=parts[0].device)
            _broadcast(job, together, source, group)
            torch._foreach_copy_(parts, list(together.split([part.numel() for part in parts])))
    return state


def pass_on(job: Job, source: int, group: Any = None) -> None:
    """Takes part in the broadcasts of a state that this worker does not need."""
    said, sizes = _receive_skeleton(job, source, group), []
    map_tensors(said["state"], lambda tensor: sizes.append(tensor.numel() * tensor.element_size()) if tensor.is_meta else None)
    scratch = {kind: torch.empty(PIECE_BYTES, dtype=torch.uint8, device=_local(kind)) for kind in set(said["devices"])}
    for piece, kind in plan_pieces(list(zip(sizes, said["devices"]))):
        _broadcast(job, scratch[kind][:sum(end - begin for _, begin, end in piece)], source, group)


def plan_pieces(sizes: list[tuple[int, str]]) -> list[tuple[list[tuple[int, int, int]], str]]:
    """Returns the broadcasts [([(tensor, first byte, end)], device type)]. `sizes`: [(bytes, device type)]. A pure function, so
    all workers get the same."""
    pieces: list[tuple[list[tuple[int, int, int]], str]] = []
    open_ones: dict[str, tuple[list[tuple[int, int, int]], int]] = {}
    for index, (size, kind) in enumerate(sizes):
        if size >= SMALL_BYTES:
            pieces += [([(index, begin, min(begin + PIECE_BYTES, size))], kind) for begin in range(0, size, PIECE_BYTES)]
        elif size:
            piece, used = open_ones.get(kind, (None, 0))
            if piece is None or used + size > PIECE_BYTES:
                piece, used = [], 0
                pieces.append((piece, kind))
            piece.append((index, 0, size))
            open_ones[kind] = piece, used + size
    return pieces


def _outline(tensor: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
    """Returns what stands for a tensor in the skeleton. Tensors without plain memory travel within it."""
    tensor = tensor.detach()
    if not _is_plain(tensor):
        return tensor.cpu()
    outline = torch.empty_like(tensor, device="meta")
    tensors.append(tensor if outline.stride() == tensor.stride() else torch.empty_like(tensor).copy_(tensor))
    return outline


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_quantized


def _receive_skeleton(job: Job, source: int, group: Any) -> dict[str, Any]:
    size = torch.zeros(1, dtype=torch.int64)
    _broadcast(job, size, source, group)
    text = bytearray(int(size))
    _broadcast(job, torch.frombuffer(text, dtype=torch.uint8), source, group)
    return torch.load(io.BytesIO(text), weights_only=True)


def _fit(tree: Any, own: Any, devices: Iterator[torch.device], tensors: list[torch.Tensor]) -> Any:
    """Returns the tree with a tensor to be filled for each outline, which is also appended to `tensors`."""
    if isinstance(tree, torch.Tensor):
        if not tree.is_meta:
            return tree
        device = next(devices)
        fits = (isinstance(own, torch.Tensor) and own.layout == torch.strided and own.device.type == device.type
                and (own.shape, own.dtype, own.stride()) == (tree.shape, tree.dtype, tree.stride()))
        tensors.append(own if fits else torch.empty_strided(tree.shape, tree.stride(), dtype=tree.dtype, device=device))
        return tensors[-1]
    if isinstance(tree, dict):
        new = copy.copy(tree)
        for key, value in tree.items():
            new[key] = _fit(value, own.get(key) if isinstance(own, dict) else None, devices, tensors)
        return new
    if isinstance(tree, (list, tuple)):
        owns = own if isinstance(own, (list, tuple)) and len(own) == len(tree) else len(tree) * [None]
        values = [_fit(value, each, devices, tensors) for value, each in zip(tree, owns)]
        return values if isinstance(tree, list) else tuple(values)
    return tree


def _broadcast(job: Job, tensor: torch.Tensor, source: int, group: Any) -> None:
    finish(job, start(tensor, source, group), tensor)


def _row(tensor: torch.Tensor) -> torch.Tensor:
    return _bytes(tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset()))


def _bytes(row: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(row).reshape(-1) if row.is_complex() else row).view(torch.uint8)


def _local(kind: str) -> torch.device:
    return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)


def _device(own: Any, kind: str) -> torch.device:
    """Returns this worker's device of a type: that of its first tensor on one."""
    found = []
    map_tensors(own, lambda tensor: found.append(tensor.device) if tensor.device.type == kind else None)
    return found[0] if found else _local(kind)

"""Compares the programs of the members of a generation, before any of them sends tensors of another shape than the others
expect."""
from __future__ import annotations

import hashlib
from collections import Counter

import torch

PARTS = ("names or shapes of the parameters", "number types", "set of frozen parameters", "buffers",
         "optimizer or parameter groups", "number of shards")
MASK63 = (1 << 63) - 1


def program_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer, lived: bool, shards: int = 1) -> list[int]:
    """Returns what a worker says of its program: int64 numbers. `lived`: it was in an earlier generation. `shards`: those
    into which each node divides the model."""
    named, saved = list(model.named_parameters()), set(model.state_dict())
    parts = ([(name, tuple(each.shape)) for name, each in named], [str(each.dtype) for _, each in named],
             [each.requires_grad for _, each in named],
             [(name, tuple(each.shape), str(each.dtype)) for name, each in model.named_buffers() if name in saved],
             [type(optimizer).__name__, [len(group["params"]) for group in optimizer.param_groups]], [shards])
    return [int(lived)] + [_digest(repr(part)) for part in parts]


def compare(rank: int, programs: list[list[int]]) -> None:
    """Raises ValueError if this rank's program differs from the prevailing one: that of most of the workers that were in
    an earlier generation, or of most of all if none was; of equally many that of the lowest rank."""
    of = [tuple(program[1:]) for program in programs]
    lived = [each for each, program in zip(of, programs) if program[0]]
    prevailing = Counter(lived or of).most_common(1)[0][0]
    if of[rank] != prevailing:
        other = next(name for name, mine, theirs in zip(PARTS, of[rank], prevailing) if mine != theirs)
        raise ValueError(f"rank {rank} has another model than rank {of.index(prevailing)}: the {other} differ; start all "
                         "workers with the same program and settings")


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") & MASK63

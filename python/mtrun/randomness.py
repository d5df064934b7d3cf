"""Random numbers that do not depend on which worker computes what: PyTorch's, Python's and NumPy's generators are seeded
from the run's seed and the numbers of the work (docs/formats.md, "Random numbers of Python programs")."""
from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections.abc import Iterator

import torch

from mtrun.sampler import MASK, fnv1a, splitmix


@functools.lru_cache(64)
def _key_of(seed: int, purpose: str) -> int:
    return splitmix(fnv1a(purpose) ^ splitmix(seed & MASK))


def seed_of(seed: int, purpose: str, *numbers: int) -> int:
    """Returns a 64-bit seed, a function of its arguments only. `purpose`: a name, so that two uses of equal numbers
    differ."""
    key = _key_of(seed, purpose)
    for number in numbers:
        key = splitmix(key + number & MASK)
    return key


def seed_generators(seed: int) -> None:
    """Seeds the default generators with a 64-bit number: PyTorch's on the CPU and, if CUDA is in use, on every GPU,
    Python's `random`, and NumPy's if it is imported. A torch.Generator of the program's own is not seeded."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed([seed & 0xFFFFFFFF, seed >> 32])


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Restores the default generators at the end, so that the code after it draws the numbers that it would have drawn
    without it."""
    cpu, python = torch.default_generator.get_state(), random.getstate()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        torch.default_generator.set_state(cpu)
        random.setstate(python)
        if gpus is not None:
            torch.cuda.set_rng_state_all(gpus)
        if numpy:
            numpy.random.set_state(state)


@contextlib.contextmanager
def seeded(seed: int, *numbers: int, purpose: str = "program") -> Iterator[None]:
    """Wraps code whose random numbers shall be a function of (seed, numbers): `with seeded(0, epoch, sample): ...`."""
    with restored():
        seed_generators(seed_of(seed, purpose, *numbers))
        yield

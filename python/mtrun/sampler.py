"""The order of samples of mtrun's trainers, the same at any number of workers (docs/formats.md, "The order of samples")."""
from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Any

MASK = (1 << 64) - 1


def splitmix(x: int) -> int:
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def fnv1a(name: str) -> int:
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 & MASK
    return h


class Permutation:
    """A permutation of one epoch's samples: a Feistel network, repeated until the number is in [0, size)."""

    def __init__(self, seed: int, size: int, epoch: int) -> None:
        key = splitmix((fnv1a("sampler") ^ splitmix(seed)) + epoch & MASK)
        self._size, self._half = size, max(4, ((size - 1).bit_length() + 1) // 2)
        self._keys = [splitmix(key + r & MASK) for r in range(8)]

    def __getitem__(self, position: int) -> int:
        half, low, x = self._half, (1 << self._half) - 1, position
        while True:
            left, right = x >> half, x & low
            for key in self._keys:
                left, right = right, left ^ splitmix(key ^ right) >> 64 - half
            x = left << half | right
            if x < self._size:
                return x


def digest(ids: list[int]) -> str:
    """Returns the SHA-256 over the ids (8 bytes each, little-endian), by which the ledger names a step's samples."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}q", *ids)).hexdigest()


def hash_of(ids: list[int]) -> int:
    """Returns the sum of the ids' hashes modulo 2^64; the workers' values add up."""
    return sum(splitmix(i) for i in ids) & MASK


def share_of(rank: int, world_size: int, micro_batches: int) -> range:
    """Returns the micro-batches of a whole step that worker `rank` computes; the first workers have one more if they are not
    divisible."""
    each, larger = divmod(micro_batches, world_size)
    begin = rank * each + min(rank, larger)
    return range(begin, begin + each + (rank < larger))


@dataclass(frozen=True)
class StepPlan:
    """The samples of one step. `ids`: those of all workers, in order. `micro_batches`: (number within the step, ids) of
    each one that this worker computes, ascending; the numbers do not depend on the number of workers. `repeated`: those
    that it computes once more with weight 0, because the others of its node make more passes. `existing`: micro-batches of
    all workers."""
    step: int
    epoch: int
    ids: list[int]
    micro_batches: list[tuple[int, list[int]]]
    repeated: list[tuple[int, list[int]]] = field(default_factory=list)
    existing: int = 0

    @property
    def passes(self) -> list[tuple[int, list[int]]]:
        """Returns all micro-batches that this worker computes, in their order."""
        return self.micro_batches + self.repeated


class ElasticSampler:
    """Assigns samples to workers for each step. A step consumes `global_batch` samples, in micro-batches of
    `micro_batch`; worker w of W computes a contiguous range of the micro-batches. Neither depends on W, so a step's
    batch is the same for any number of workers, and each sample is taken once per epoch while workers come and go."""

    def __init__(self, size: int, global_batch: int, micro_batch: int, epochs: int = 1, seed: int = 0,
                 shuffle: bool = True) -> None:
        for name, value in (("size", size), ("global_batch", global_batch), ("micro_batch", micro_batch), ("epochs", epochs)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}, but must be a whole number of at least 1")
        if not isinstance(seed, int) or not 0 <= seed <= MASK:
            raise ValueError(f"seed is {seed!r}, but must be a whole number from 0 to 2^64 - 1")
        self.size, self.global_batch, self.micro_batch = size, global_batch, micro_batch
        self.epochs, self.seed, self.shuffle = epochs, seed, shuffle
        self.step = 0  # finished steps
        self._order: tuple[int, Permutation] | None = None  # epoch

    @property
    def micro_batches_of_step(self) -> int:
        """Returns the micro-batches of a whole step on all workers."""
        return -(-self.global_batch // self.micro_batch)

    @property
    def steps_per_epoch(self) -> int:
        """Returns the steps of an epoch; the last one can be short."""
        return -(-self.size // self.global_batch)

    @property
    def steps(self) -> int:
        """Returns the steps of the whole run."""
        return self.epochs * self.steps_per_epoch

    @property
    def epoch(self) -> int:
        """Returns the epoch of the next step, from 0."""
        return self.step // self.steps_per_epoch

    @property
    def samples(self) -> int:
        """Returns the samples of all finished steps on all workers; the last step of an epoch can be short."""
        epochs, steps = divmod(self.step, self.steps_per_epoch)
        return epochs * self.size + steps * self.global_batch

    @property
    def finished(self) -> bool:
        """Returns whether all steps of all epochs are finished."""
        return self.step >= self.steps

    def ids(self, step: int | None = None) -> list[int]:
        """Returns the ids of a step on all workers, by default of the next one."""
        step = self.step if step is None else step
        epoch, within = divmod(step, self.steps_per_epoch)
        positions = range(within * self.global_batch, min((within + 1) * self.global_batch, self.size))
        if not self.shuffle:
            return list(positions)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, Permutation(self.seed, self.size, epoch))
        order = self._order[1]
        return [order[p] for p in positions]

    def plan(self, rank: int, world_size: int, step: int | None = None, node: range | None = None) -> StepPlan:
        """Returns this worker's StepPlan of a step, by default of the next one. It has no micro-batches if the step has
        fewer than there are workers before this one. `node`: ranks, including this one, that make equally many passes;
        one that has fewer micro-batches repeats the first of them. ValueError if the rank is not in [0, world_size)."""
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size} workers")
        step = self.step if step is None else step
        ids = self.ids(step)
        existing = -(-len(ids) // self.micro_batch)  # a short last step lacks some

        def share(rank: int) -> range:
            whole = share_of(rank, world_size, self.micro_batches_of_step)
            return range(min(whole.start, existing), min(whole.stop, existing))

        def batch(number: int) -> tuple[int, list[int]]:
            return number, ids[number * self.micro_batch:(number + 1) * self.micro_batch]

        own = share(rank)
        shares = [share(each) for each in node or ()]
        lacking = max(map(len, shares), default=len(own)) - len(own)
        return StepPlan(step, step // self.steps_per_epoch, ids, [batch(number) for number in own],
                        lacking * [batch(min(each[0] for each in shares if each))] if lacking else [], existing)

    def micro_batches(self, rank: int, world_size: int) -> list[list[int]]:
        """Returns lists of ids, one for each pass of this worker in the next step; see `plan`."""
        return [batch for _, batch in self.plan(rank, world_size).micro_batches]

    def advance(self) -> None:
        """Counts the step as applied."""
        self.step += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, and what the order depends on."""
        return {"step": self.step, "size": self.size, "global_batch": self.global_batch, "micro_batch": self.micro_batch,
                "seed": self.seed, "shuffle": self.shuffle}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError if the state belongs to another order."""
        mine = self.state_dict()
        other = sorted(name for name in mine if name != "step" and state.get(name) != mine[name])
        if other:
            raise ValueError("the state is from another order of samples: " +
                             ", ".join(f"{name} {state.get(name)!r} instead of {mine[name]!r}" for name in other))
        self.step = int(state["step"])
